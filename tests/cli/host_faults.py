"""Workers that are killed, stopped and restarted in the middle of a run: each is noticed within the
deadline, the run goes on from its last checkpoint, and its weights are those of a run that was
never disturbed.

    host_faults.py COMMAND            as CI runs it
    KILLS=200 host_faults.py COMMAND  with so many kills
"""

import json
import os
import random
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
    def saved(self):
        """The step of the newest checkpoint."""
        return max([int(file.stem.removeprefix("step-")) for file in self.checkpoints()], default=0)

    def test_costs_steps_but_no_bit_whenever_it_is_killed(self):
        """At random moments: while connections are made, in forwards, backwards, updates, and while
        a checkpoint is fetched. It comes back on the same port."""
        chance = random.Random(KILLS)
        steps = 10 * KILLS + 20
        there = self.workers(2)
        run = self.start_run(there, steps=steps, join_deadline=20)
        for kill in range(KILLS):
            if kill % 3 != 2:  # Every third comes while the run still recovers from the one before.
                self.wait_until(lambda: run.poll() is not None or self.saved() >= 10 * kill)
            time.sleep(0.4 * chance.random())
            self.assertIsNone(run.poll(), "".join(run.lines))
            victim = chance.randrange(2)
            there[victim].kill()
            there[victim] = Worker(self, listen=there[victim].address)
        disturbed = self.finish(run)
        self.assertGreater(len(disturbed["faults"]), KILLS / 2)
        print(f"({KILLS} kills, {len(disturbed['faults'])} faults) ", end="", flush=True)
        self.assertEqual(disturbed["weights_sha256"], self.weights_alone(steps))
        for each in there:
            each.wait_for_log("free again")

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
        self.assertTrue(run.lines[-1].startswith("error: step "), run.lines[-1])
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
        there = self.workers(2)
        run = self.start_run(there, steps=60, fault_deadline=2, join_deadline=20)
        self.wait_for_step(run, 4)
        there[1].stop()
        began = time.monotonic()
        self.wait_for(run, "warning")
        self.assertLess(time.monotonic() - began, 10)
        there[1].go_on()
        there[1].wait_for_log("free again")
        disturbed = self.finish(run)
        self.assertGreaterEqual(len(disturbed["faults"]), 1)
        self.assertEqual(disturbed["weights_sha256"], self.weights_alone(60))


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
