"""Workers that are killed, stopped and restarted in the middle of a run: each is noticed within the
deadline, the run goes on from its last checkpoint, and its weights are those of a run that was
never disturbed.

    host_faults.py COMMAND            as CI runs it
    KILLS=200 host_faults.py COMMAND  with so many kills
"""

import json
import os
import random
import signal
import threading
import time
import unittest

import support
import workers
from workers import Worker, WorkersTest

# A step of some 50 ms, a checkpoint every few.
RUN = dict(layers=2, width=64, length=32, micro_batches=8, micro_batch_size=4, stages=4,
           cut="1,2,2,1", dropout=0.1, checkpoint="run", checkpoint_every=5)
KILLS = int(os.environ.get("KILLS", "40"))
STOPS = LAUNCHES = max(4, KILLS // 8)
# What a process may grow by over the last three quarters of the kills.
ROOM_KIB = 8 * 1024


class Disturbed(WorkersTest):
    def start_run(self, there, **options):
        run = self.start(*self.train_words(**{**RUN, **options}, workers=self.addresses(there),
                                           json="out.json"))
        self.addCleanup(run.kill)
        run.lines = []
        run.reader = threading.Thread(target=lambda: run.lines.extend(run.stderr), daemon=True)
        run.reader.start()
        return run

    def wait_for(self, run, text, times=1):
        deadline = time.monotonic() + workers.DEADLINE
        while sum(text in line for line in list(run.lines)) < times:
            self.assertLess(time.monotonic(), deadline, f"no '{text}' in {''.join(run.lines)}")
            self.assertIsNone(run.poll(), "".join(run.lines))
            time.sleep(0.01)

    def wait_for_step(self, run, least):
        """Until the run's messages have come to a step from `least` on."""
        def reached():
            self.assertIsNone(run.poll(), "".join(run.lines))
            steps = [int(line[5:].split("/")[0]) for line in list(run.lines)
                     if line.startswith("step ") and "loss" in line]
            return steps and steps[-1] >= least
        self.wait_until(reached)

    def saved(self):
        """The step of the newest checkpoint."""
        return max([int(file.stem.removeprefix("step-")) for file in self.checkpoints()], default=0)

    def wait_until_saved(self, run, step):
        def is_saved():
            self.assertIsNone(run.poll(), "".join(run.lines))
            return self.saved() >= step
        self.wait_until(is_saved)

    def wait_for_progress(self, run):
        """Until the run has come beyond where it was when it was disturbed, if it was."""
        self.wait_until_saved(run, self.saved() + 2 * RUN["checkpoint_every"])

    def assert_says_at_which_step(self, run):
        """Wherever it was lost: in a step, between two, or while a checkpoint was fetched."""
        self.assertRegex(run.lines[-1], r"^error: (fetching the weights after )?step \d+: ")

    def weights_alone(self, steps):
        """Of a run that nobody disturbs, in one process."""
        words = self.train_words(**{**RUN, "steps": steps, "stages": 1, "cut": None,
                                    "checkpoint": None, "checkpoint_every": None})
        run = self.start(*words, "--json", "-")
        results, messages = run.communicate(timeout=900)
        self.assertEqual(run.returncode, 0, messages)
        return json.loads(results)["weights_sha256"]

    def finish(self, run, code=0):
        self.assertEqual(run.wait(900), code, "".join(run.lines))
        run.reader.join(workers.DEADLINE)
        run.stdout.close()
        run.stderr.close()
        return json.loads((self.folder / "out.json").read_text())


class AKilledWorker(Disturbed):
    def test_costs_steps_but_no_bit_whenever_it_is_killed(self):
        """At random moments: while connections are made, in forwards, backwards, updates, and while
        a checkpoint is fetched. It comes back on the same port. A worker that is never killed, and
        the trainer, keep nothing of the runs before."""
        chance = random.Random(KILLS)
        steps = 10 * KILLS + 100
        there = self.workers(3)
        run = self.start_run(there, steps=steps, join_deadline=20)
        self.wait_for_progress(run)
        lasting = {"trainer": run, "worker": there[1].process}
        opened = {who: self.threads_and_files(each) for who, each in lasting.items()}
        early = {}
        for kill in range(KILLS):
            if kill % 3 != 2:  # Every third comes while the run still recovers from the one before.
                self.wait_until_saved(run, 10 * kill)
            if kill == KILLS // 4:
                early = {who: workers.resident_kib(each) for who, each in lasting.items()}
            time.sleep(0.4 * chance.random())
            self.assertIsNone(run.poll(), "".join(run.lines))
            victim = chance.choice([0, 2])
            there[victim].kill()
            there[victim] = Worker(self, listen=there[victim].address)
        self.wait_for_progress(run)
        for who, each in lasting.items():
            self.assert_no_more_open(who, each, opened[who])
        late = {who: workers.resident_kib(each) for who, each in lasting.items()}
        disturbed = self.finish(run)
        self.assertGreater(len(disturbed["faults"]), KILLS / 2)
        print(f"({KILLS} kills, {len(disturbed['faults'])} faults; threads and files {opened}; "
              f"resident KiB from {early} to {late}) ", end="", flush=True)
        for who in lasting:
            self.assert_grown_less(early[who], late[who], ROOM_KIB)
        self.assertEqual(disturbed["weights_sha256"], self.weights_alone(steps))
        for each in there:
            each.wait_for_log("free again")
        self.assert_no_leftovers()
        self.assertEqual(sorted(file.name for file in self.folder.iterdir()),
                         ["out.json", "run", "text.txt"])

    def assert_no_more_open(self, who, process, before):
        """In the end: a checkpoint that is just being written has a file, too."""
        self.wait_until(lambda: all(now <= then for now, then in zip(
            self.threads_and_files(process), before)),
            lambda: f"{who}: {self.threads_and_files(process)} threads and files, {before} before")

    def test_is_named_with_stage_micro_batch_and_operation(self):
        there = self.workers(2)
        run = self.start_run(there, steps=3, micro_batches=400, join_deadline=1)
        self.wait_for_step(run, 1)
        time.sleep(0.3)  # into a step of seconds
        there[1].kill()
        result = self.finish(run)
        (fault,) = result["faults"]
        self.assertRegex(fault, r"^step \d+: ")
        self.assertIn(f"lost: rank 2 on {there[1].address}, 3 on {there[1].address}", fault)
        self.assertRegex(fault, r"when it was aborted, rank 0 .*[FB]\d+ of chunk 0")
        self.assertRegex(fault, r"continued after step \d+ with 2 stages")

    def test_is_done_without_and_with_fewer_stages_when_it_stays_away(self):
        there = self.workers(4)
        run = self.start_run(there, steps=40, join_deadline=1)
        self.wait_for_step(run, 10)
        there[2].kill()
        self.wait_for(run, "with 3 stages")
        disturbed = self.finish(run)
        self.assertEqual(len(disturbed["stages"]), 3)
        self.assertEqual(disturbed["weights_sha256"], self.weights_alone(40))

    def test_ends_the_run_with_a_clear_error_where_that_is_asked_for(self):
        there = self.workers(2)
        run = self.start_run(there, steps=1_000_000, on_fault="stop")
        self.wait_for_step(run, 1)
        there[1].kill()
        result = self.finish(run, code=1)
        self.assertEqual(len(result["faults"]), 1)
        self.assert_says_at_which_step(run)
        there[0].wait_for_log("free again")

    def test_without_a_checkpoint_means_to_begin_anew(self):
        there = self.workers(2)
        run = self.start_run(there, steps=30, checkpoint=None, checkpoint_every=None,
                             join_deadline=20)
        self.wait_for_step(run, 4)
        there[0].kill()
        there[0] = Worker(self, listen=there[0].address)
        disturbed = self.finish(run)
        self.assertIn("continued after step 0", disturbed["faults"][0])
        self.assertEqual(disturbed["weights_sha256"], self.weights_alone(30))

    def test_all_of_them_end_the_run_when_none_comes_back(self):
        there = self.workers(2)
        run = self.start_run(there, steps=1_000_000, join_deadline=0.5)
        self.wait_for_step(run, 1)
        for each in there:
            each.kill()
        self.finish(run, code=1)
        self.assertIn("no worker came back within 0.5 s", run.lines[-1])


class AStoppedWorker(Disturbed):
    def test_is_noticed_within_the_deadline_and_may_come_back(self):
        """At random moments, each time for longer than the deadline."""
        chance = random.Random(STOPS)
        steps = 15 * STOPS + 30
        there = self.workers(2, "--fault-deadline", 2)
        run = self.start_run(there, steps=steps, fault_deadline=2, join_deadline=20)
        for stop in range(STOPS):
            self.wait_for_progress(run)
            time.sleep(0.2 * chance.random())
            victim = there[chance.randrange(2)]
            noted = sum("warning" in line for line in run.lines)
            victim.stop()
            began = time.monotonic()
            self.wait_for(run, "warning", noted + 1)
            self.assertLess(time.monotonic() - began, 10)
            victim.go_on()
        disturbed = self.finish(run)
        self.assertGreaterEqual(len(disturbed["faults"]), STOPS)
        self.assertEqual(disturbed["weights_sha256"], self.weights_alone(steps))
        for each in there:
            each.wait_for_log("free again")


class AStoppedTrainer(Disturbed):
    def stop_and_go_on(self, **options):
        """While it is stopped its workers free themselves, and another run has them."""
        there = self.workers(2, "--fault-deadline", 2)
        run = self.start_run(there, steps=60, fault_deadline=2, join_deadline=20, **options)
        self.wait_until_saved(run, 10)
        run.send_signal(signal.SIGSTOP)
        for each in there:
            each.wait_for_log("free again")
        other = self.results(workers=self.addresses(there), stages=2)
        self.assertEqual(other["weights_sha256"], self.results()["weights_sha256"])
        for each in there:
            each.wait_for_log("free again", 2)
        run.send_signal(signal.SIGCONT)
        return run

    def test_loses_its_workers_and_has_them_again_when_it_goes_on(self):
        disturbed = self.finish(self.stop_and_go_on())
        self.assertGreaterEqual(len(disturbed["faults"]), 1)
        self.assertEqual(disturbed["weights_sha256"], self.weights_alone(60))

    def test_ends_with_a_clear_error_where_that_is_asked_for_and_leaves_sound_checkpoints(self):
        run = self.stop_and_go_on(on_fault="stop")
        result = self.finish(run, code=1)
        self.assertEqual(len(result["faults"]), 1)
        self.assert_says_at_which_step(run)
        rest = self.results(**{**RUN, "steps": 60}, resume="run")
        self.assertEqual(rest["weights_sha256"], self.weights_alone(60))


class AKilledWorkerOfALaunchedRun(Disturbed):
    def test_is_done_without_whenever_it_is_killed(self):
        """It is not started again. Killed before it listens, it ends the run with a message."""
        chance = random.Random(3)
        words = self.train_words(**{**RUN, "steps": 40, "checkpoint": None,
                                    "checkpoint_every": None}, join_deadline=1, json="-")[1:]
        alone = self.weights_alone(40)
        faults = 0
        for trial in range(LAUNCHES):
            run = self.start("launch", "-n", 3, *words)
            self.addCleanup(run.kill)
            self.wait_until(lambda: self.children_named("worker"))
            time.sleep(0.8 * chance.random())
            victims = self.children_named("worker")
            if victims:
                os.kill(chance.choice(victims), signal.SIGKILL)
            results, messages = run.communicate(timeout=120)
            if "a worker process did not start" in messages or "cannot be had" in messages:
                self.assertIn(run.returncode, (1, 2), messages)
            else:
                self.assertEqual(run.returncode, 0, messages)
                results = json.loads(results)
                self.assertEqual(results["weights_sha256"], alone)
                faults += len(results["faults"])
            self.assertEqual(self.children_named("worker"), [])
        print(f"({faults} faults in {LAUNCHES} runs) ", end="", flush=True)
        self.assertGreater(faults, 0)


class AWorkerOnTheSamePort(WorkersTest):
    def test_joins_again_twenty_times(self):
        there = Worker(self)
        for _ in range(20):
            address = there.address
            there.kill()
            there = Worker(self, listen=address)
            self.train(stages=2, steps=1, workers=address)


if __name__ == "__main__":
    support.main()
