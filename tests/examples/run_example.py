#!/usr/bin/env python3
"""Runs an example and checks what it says.

    run_example.py NAME PROGRAM WORK
"""

import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


def run(*command, folder, code=0):
    done = subprocess.run([str(part) for part in command], encoding="utf-8", errors="replace",
                          capture_output=True, cwd=folder, check=False)
    if done.returncode != code:
        sys.exit(f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def number(what, text):
    """The number in the first match of a pattern."""
    found = re.search(what, text)
    if found is None:
        sys.exit(f"expected '{what}' in:\n{text}")
    return float(found[1])


def require(condition, text):
    if not condition:
        sys.exit("not as expected:\n" + text)


def byte_lm(program, folder):
    text = run(program, EXAMPLES.parent / "LICENSE", 60, folder=folder)
    number(r"stage (2): .* to head", text)
    first, last = number(r"step 1: loss ([\d.]+)", text), number(r"step 60: loss ([\d.]+)", text)
    require(first > 4.5 and last < 3, text)
    require(len(text.split("---\n")[1].encode(errors="replace")) > 100, text)
    run(program, "/nowhere", folder=folder, code=2)


def digits(program, folder):
    data = folder / "digits.csv"
    if not data.is_file():
        got = subprocess.run([sys.executable, EXAMPLES / "get_digits.py", data], text=True,
                             capture_output=True, check=False)
        if got.returncode != 0:
            print("SKIPPED: no scikit-learn here, and its wheel cannot be fetched\n" + got.stderr)
            sys.exit(77)
    text = run(program, data, folder / "confusion.svg", folder=folder)
    require(number(r"right: ([\d.]+)%", text) >= 97, text)
    svg = xml.etree.ElementTree.parse(folder / "confusion.svg").getroot()
    require(sum(1 for each in svg if each.tag.endswith("rect")) == 101, "confusion.svg")
    print(text.splitlines()[-1])
    (folder / "bad.csv").write_text("1,2,3\n", encoding="utf-8")
    require("line 1" in run(program, folder / "bad.csv", "x.svg", folder=folder, code=1), "bad.csv")


def custom_trainer(program, folder):
    text = run(program, folder=folder)
    require(number(r"best loss ([\d.]+)", text) < 0.02, text)
    require(number(r"step 0: loss ([\d.]+)", text) > 0.2, text)


def actor_trainer(program, folder):
    text = run(program, folder=folder)
    require(number(r"step 59: loss ([\d.]+)", text) < 0.5 * number(r"step 0: loss ([\d.]+)", text)
            and text.endswith("done\n"), text)


def own_schedule(program, folder):
    text = run(program, folder=folder)
    require(number(r"\nown, uneven tasks: ([\d.]+)", text)
            <= number(r"\n1f1b, uneven tasks: ([\d.]+)", text), text)
    require("0 | 012" in text, text)
    (folder / "dead.csv").write_text("0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n", encoding="utf-8")
    require("cannot finish" in run(program, "dead.csv", folder=folder, code=1), "dead.csv")


def two_hosts(program, folder):
    """Two worker processes; the trainer's losses are those of one process, digit for digit."""
    alone = run(program, "alone", folder=folder)
    first, last = number(r"step 0: loss ([\d.]+)", alone), number(r"step 200: loss ([\d.]+)", alone)
    require(last < first / 4, alone)
    workers = [subprocess.Popen([program, "worker", "127.0.0.1:0"], text=True, cwd=folder,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)]
    try:
        addresses = [each.stdout.readline().removeprefix("listening on ").strip()
                     for each in workers]
        text = run(program, "train", *addresses, folder=folder)
        require(text == alone, text + alone)
    finally:
        for each in workers:
            said, _ = each.communicate()  # the end of its input ends it
            require(each.returncode == 0 and "leased to" in said, said)
    text = run(program, "train", "127.0.0.1:1", folder=folder, code=1)
    require("error: 127.0.0.1:1: " in text, text)


def libtorch_stage(program, folder):
    text = run(program, folder=folder)
    require(number(r"step 60: loss ([\d.]+)", text) < 0.3 * number(r"step 0: loss ([\d.]+)", text),
            text)
    number(r"stage (3):", text)


def main():
    name, program, folder = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    checks = (byte_lm, digits, custom_trainer, actor_trainer, own_schedule, two_hosts,
              libtorch_stage)
    {check.__name__: check for check in checks}[name](program, folder)
    print(f"{name}: as expected")


if __name__ == "__main__":
    main()
