#!/usr/bin/env python3
"""Runs every shipped schedule through the model checker spin, and compares with check().

    check_model.py GENERATOR [--full] [--jobs N] [--only SCHEDULE]

GENERATOR is promela_of_plan. For each plan, at transport capacity 0 and 1 and with credits from 1
to one more than the schedule's own, spin searches all states of protocol.pml:

  check() says live   no execution deadlocks or breaks an assertion
  check() says stuck  spin finds a deadlock, and no execution finishes

The small size, for every test run, is P, M <= 2, and P = 2, M = 3 at the schedules' own credits;
--full is P, M <= 3, V <= 2. Both add receive slots (plan::receive_slots = 1), plans of forwards
only, plans made by chance (swapped lanes, any credits, warm-up levels and stand-ins), and faults
that spin must find: a lost, a duplicated and a swapped transfer, lanes that are not kept to, a
credit too many taken, a credit too few, two entries of a lane swapped. --full also repeats the
small size without partial order reduction.

What is proven, for these sizes and whatever the order and duration of events: no deadlock; every
task runs exactly once, in its lane's order, on the input that is its own; nothing is left over in a
channel; a chunk's gradients are summed in the order of its backwards; a rank holds no more
activations than its credits, and no more activations and versions of weights than check() says; and
check() itself: its verdict is that of all executions. PipeDream and PipeDream-2BW are among the
schedules: updates are tasks, and forwards wait for their version.

What is not: larger sizes; that the C++ of the ledger and the stage actor does what the model says
(their tests step them against the simulator); numbers, bytes and buffers; failures and aborts; the
end of a step (twins, norm, apply); skip edges. And not a transport with fewer slots than the plan
says: where two ranks run one edge's micro-batches in different orders, or the first rank runs them
in another order than the trainer sends them, capacity 0 and 1 deadlock though check() says live.
Shipped schedules have no such lanes; plans made by chance do, so here they run with room for all.

Ends with 77, which counts as skipped, where spin or a C compiler is missing.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

MEMORY_MIB = 1024
DEPTH = 50000  # of the deepest path; pan says when it was too small
Row = collections.namedtuple("Row", "spec credits says states seen fine")

# Name, plan, what spin must say, pan's flags. By what a fault is found differs: a lost transfer
# only makes ranks wait; a swapped one is seen at once. -A ignores assertions: lanes that are not
# kept to deadlock, too.
FAULTS = [
    ("lost", "interleaved:2:3:2:3", "invalid end state", []),
    ("duplicated", "interleaved:2:3:2:3", "assertion violated", []),
    ("swapped", "interleaved:2:3:2:3", "assertion violated (content==m)", []),
    ("unordered", "interleaved:2:3:2:3", "assertion violated (f_plan[nf]==entry)", []),
    ("unordered", "interleaved:2:3:2:3", "invalid end state", ["-A"]),
    ("overdrawn", "interleaved:2:3:2:3", "assertion violated ((held<=credits)", []),
    ("credit", "1f1b:2:3:-:-", "invalid end state", []),
    ("lanes", "1f1b:2:3:-:-", "invalid end state", []),
]


class Broken(Exception):
    """The tools did not do what they should."""


def output_of(command, folder=None, env=None):
    done = subprocess.run(command, cwd=folder, env=env, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise Broken(f"{' '.join(map(str, command[:3]))}: {done.stdout[-2000:]}")
    return done.stdout


class Checker:
    """One compiled model: the plans of one generator call."""

    def __init__(self, generator, options, specs, *compile_flags):
        self.folder = tempfile.TemporaryDirectory(prefix="sluice-model-")
        text = output_of([generator, *options, *specs])
        self.plans = re.findall(r"^// plan \d+ (\S+) credits (\d+) check (\w+)$", text, re.M)
        if len(self.plans) != len(specs):
            raise Broken(f"{len(specs)} plans asked for, {len(self.plans)} in the model")
        (pathlib.Path(self.folder.name) / "model.pml").write_text(text, encoding="utf-8")
        output_of(["spin", "-a", "model.pml"], self.folder.name)
        compiler = os.environ.get("CC", shutil.which("gcc") or "cc")
        output_of([compiler, *compile_flags, "-w", "-DSAFETY", "-DCOLLAPSE",
                   f"-DMEMLIM={MEMORY_MIB}", "-DVECTORSZ=2048", "pan.c", "-o", "pan"],
                  self.folder.name)

    def run(self, number, *flags):
        """The states that were found, and the first error or None."""
        said = output_of(["nice", "./pan", "-q", "-w18", f"-m{DEPTH}", *flags], self.folder.name,
                         {**os.environ, "PLAN": str(number)})
        states = re.search(r"(\d+) states, stored", said)
        errors = re.search(r"errors: (\d+)", said)
        if f"runs {self.plans[number][0]}\n" not in said:
            raise Broken(f"{self.plans[number]}: pan ran another plan")
        if not states or not errors or "max search depth too small" in said:
            raise Broken(f"{self.plans[number]}: {said[-2000:]}")
        error = re.search(r"^pan:\d+: (.*?)(?: \(at depth \d+\))?$", said, re.M)
        if (errors[1] != "0") != bool(error) or (not error and "Full statespace" not in said):
            raise Broken(f"{self.plans[number]}: {said[-2000:]}")
        return int(states[1]), error[1] if error else None

    def verdict(self, number):
        """Spin's verdict of one plan beside that of check()."""
        spec, credits, says = self.plans[number]
        states, error = self.run(number)
        seen = "live"
        if error == "invalid end state":
            seen = "stuck"
            states, error = self.run(number, "-E")  # ignores deadlocks: does any execution finish?
        if error:
            seen = error
        return Row(spec, int(credits), says, states, seen, seen == says)


def specs_of(generator, sizes, all_credits, only):
    """SCHEDULE:P:M:V:CREDITS for every schedule that can have the size."""
    listed = [line.split() for line in output_of([generator, "--list"]).splitlines()]
    found = []
    for name, own, free in listed:
        if only and name != only:
            continue
        for ranks, micro_batches in sizes:
            if name == "dualpipe" and ranks % 2:
                continue  # from both ends: an even number of ranks
            for chunks in [1, 2] if free == "free" else [int(own)]:
                found.append(f"{name}:{ranks}:{micro_batches}:{chunks}:-")
    if not all_credits:
        return found
    text = output_of([generator, *found])
    for spec, credits in re.findall(r"^// plan \d+ (\S+) credits (\d+)", text, re.M):
        found += [spec[:-1] + str(n) for n in range(1, int(credits) + 2)]
    return found


def check_plans(title, checker, jobs):
    """All plans of a model, as a table; returns the rows."""
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        rows = list(pool.map(checker.verdict, range(len(checker.plans))))
    chance = title.startswith("plans by chance")  # only what differs is printed
    print(f"\n{title}")
    if not chance:
        print(f"{'schedule':<16}{'P':>3}{'M':>3}{'V':>3}{'credits':>9}{'states':>10}  check  spin")
    for row in sorted(rows, key=lambda each: each.spec.split(":")[:4]):
        if chance and row.fine:
            continue
        name, ranks, micro_batches, chunks, credits = row.spec.split(":")[:5]
        own = "own" if credits == "-" else ""
        print(f"{name:<16}{ranks:>3}{micro_batches:>3}{chunks:>3}{own:>5}{row.credits:>4}"
              f"{row.states:>10}  {row.says:<6} {row.seen}{'' if row.fine else '   DISAGREE'}")
    live = sum(row.seen == "live" for row in rows)
    print(f"{len(rows)} plans, {live} live, {len(rows) - live} not; "
          f"{sum(row.states for row in rows)} states, {max(row.states for row in rows)} at most; "
          f"{time.monotonic() - began:.0f} s", flush=True)
    return rows


def check_faults(generator, capacities, jobs):
    """Whether each seeded fault is found, at these capacities."""
    cases = [(capacity, *fault) for capacity in capacities for fault in FAULTS]
    kinds = sorted({case[:3] for case in cases})
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        checkers = dict(zip(kinds, pool.map(
            lambda kind: Checker(generator, [f"--capacity={kind[0]}", f"--fault={kind[1]}"],
                                 [kind[2]], "-O0"), kinds)))

    def one(case):
        _, name, _, expected, flags = case
        checker = checkers[case[:3]]
        states, error = checker.run(0, *flags)
        # check() sees what is wrong with a plan, and knows nothing of a protocol's faults.
        says = "stuck" if name in ("credit", "lanes") else "live"
        fine = bool(error) and error.startswith(expected) and checker.plans[0][2] == says
        return states, error or "nothing", fine

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        results = list(pool.map(one, cases))
    print(f"\nseeded faults\n{'fault':<12}{'plan':<22}{'capacity':>9}{'states':>8}  found by")
    for (capacity, name, spec, _, _), (states, error, fine) in zip(cases, results):
        print(f"{name:<12}{spec:<22}{capacity:>9}{states:>8}  {error}"
              f"{'' if fine else '   NOT AS EXPECTED'}")
    return [fine for _, _, fine in results]


def random_specs(generator, sizes, count):
    """Plans by chance, from the seeds 0, 1, ... in turn for each schedule and size. Asynchronous
    plans have equal lanes in the model, so they are left as they are."""
    bases = [spec for spec in specs_of(generator, sizes, False, None) if "pipedream" not in spec]
    return [f"{bases[seed % len(bases)]}:{seed}" for seed in range(count)]


def models(full):
    """Title, generator options, compiler flags, sizes, whether with all credits."""
    small = [(p, m) for p in (1, 2) for m in (1, 2)]
    large = [(p, m) for p in (1, 2, 3) for m in (1, 2, 3)]
    sizes = large if full else small
    optimize = "-O2" if full else "-O0"  # small searches take less time than gcc
    for capacity in (0, 1):
        title, option = f"transport capacity {capacity}", f"--capacity={capacity}"
        yield title, [option], [optimize], sizes, True
        if full: # whether the reduction hides anything
            yield (title + ", no partial order reduction", [option, "--no-trainer"],
                   ["-O2", "-DNOREDUCE"], small, True)
        elif capacity == 1:
            yield title, [option], [optimize], [(2, 3)], False
    title, option = "one receive slot an edge", "--receive-slots=1"
    yield title, [option], [optimize], small, full
    if full:
        yield title, [option], [optimize], [(2, 3), (3, 1), (3, 2)], False
    yield "forwards only", ["--forward-only"], [optimize], sizes, False


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("generator", type=pathlib.Path)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--only", help="one schedule")
    asked = parser.parse_args()
    if not shutil.which("spin") or not shutil.which(os.environ.get("CC", "gcc")):
        print("SKIPPED: the model check of the protocol needs spin and gcc (apt-get install spin)")
        sys.exit(77)
    generator = asked.generator.resolve()
    rows, merged = [], {}
    for title, options, flags, sizes, all_credits in models(asked.full):
        specs = specs_of(generator, sizes, all_credits, asked.only)
        merged.setdefault(title, (options, flags, []))[2].extend(specs)
    for title, slots in (("as many slots as needed", 0), ("one receive slot an edge", 1)):
        if not asked.only:
            sizes = [(2, 3), (3, 2)] if asked.full else [(2, 2)]
            specs = random_specs(generator, sizes, 1000 if asked.full else 60)
            merged[f"plans by chance, {title}"] = (["--capacity=7", f"--receive-slots={slots}"],
                                                   ["-O2" if asked.full else "-O0"], specs)
    for title, (options, flags, specs) in merged.items():
        if specs:
            rows += check_plans(title, Checker(generator, options, specs, *flags), asked.jobs)
    found = check_faults(generator, (0, 1) if asked.full else (1,), asked.jobs)
    wrong = [row for row in rows if not row.fine]
    print(f"\n{len(rows)} plans, {len(wrong)} disagreements; {sum(found)} of {len(found)} seeded "
          "faults found")
    sys.exit(1 if wrong or not all(found) else 0)


if __name__ == "__main__":
    main()
