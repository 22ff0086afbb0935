"""Signals in the middle of a step, and processes killed while they save: nothing is lost."""

import json
import random
import shutil
import signal
import time
import unittest

import support

# A step of some 50 ms, so that a signal mostly comes in the middle of one.
SLOW = dict(width=64, length=64, micro_batches=16, micro_batch_size=4, stages=2, dropout=0.1)


class Interruption(support.CommandTest):
    def start_training(self, until, **options):
        """A run whose messages have got as far as `until`."""
        process = self.start(*self.train_words(**options))
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        for line in process.stderr:
            if line.startswith(until):
                return process
        self.fail(f"no line '{until}' came; the run ended with {process.wait()}")


class ASignal(Interruption):
    def test_ends_the_run_after_a_checkpoint_that_continues_bit_for_bit(self):
        whole = self.results(steps=20, **SLOW)
        for number in [signal.SIGINT, signal.SIGTERM]:
            with self.subTest(number.name):
                shutil.rmtree(self.folder / "run", ignore_errors=True)
                process = self.start_training("step 3/20", steps=20, checkpoint="run",
                                              checkpoint_every=2, json="out.json", **SLOW)
                process.send_signal(number)
                _, messages = process.communicate(timeout=support.DEADLINE)
                self.assertEqual(process.returncode, 128 + number)
                self.assertIn(f"stopped by signal {int(number)} after step ", messages)
                self.assertIn("checkpoint saved", messages)
                stopped = json.loads((self.folder / "out.json").read_text())
                newest = self.checkpoints()[-1]
                self.assertEqual(newest.name, f"step-{stopped['steps']:08}.safetensors")
                self.assertLess(stopped["steps"], 20)
                self.assertEqual(support.weights_sha256(newest), stopped["weights_sha256"])
                self.assert_no_leftovers()
                rest = self.results(steps=20, checkpoint="run", resume="run", **SLOW)
                self.assertEqual(rest["weights_sha256"], whole["weights_sha256"])

    def test_without_a_checkpoint_folder_says_that_nothing_was_saved(self):
        process = self.start_training("step 3/20", steps=20, **SLOW)
        process.send_signal(signal.SIGINT)
        _, messages = process.communicate(timeout=support.DEADLINE)
        self.assertEqual(process.returncode, 130)
        self.assertIn("nothing saved: there is no --checkpoint", messages)

    def test_that_is_the_second_ends_the_run_at_once(self):
        long_steps = {**SLOW, "micro_batches": 4000, "stages": 1}
        for first, second in [(signal.SIGINT, signal.SIGINT), (signal.SIGINT, signal.SIGTERM)]:
            with self.subTest(f"{first.name}, {second.name}"):
                process = self.start_training("  stage 0", steps=3, checkpoint="run", **long_steps)
                time.sleep(0.2)
                process.send_signal(first)
                with self.assertRaises(support.subprocess.TimeoutExpired):
                    process.wait(timeout=0.3)  # it is in a step of seconds
                process.send_signal(second)
                self.assertEqual(process.wait(timeout=5), -second)
                self.assertEqual(self.checkpoints(), [])


class AKilledRun(Interruption):
    def test_leaves_the_newest_checkpoint_complete_whenever_it_is_killed(self):
        """The steps are short, so that most of the time goes into saving."""
        chance = random.Random(1)
        options = dict(steps=1_000_000, checkpoint="run", checkpoint_every=1, width=64)
        leftovers = 0
        newest = 0
        for trial in range(10):
            process = self.start_training("  stage 0", **options,
                                          resume="run" if newest else None)
            time.sleep(0.4 * chance.random())
            process.kill()
            process.communicate()
            self.assertEqual(process.returncode, -signal.SIGKILL)
            leftovers += len([p for p in (self.folder / "run").iterdir()
                              if ".sluice-tmp-" in p.name])
            there = self.checkpoints()
            self.assertLessEqual(len(there), 4, "the last three, and one just saved")
            for file in there:
                metadata, tensors = support.read_safetensors(file)
                self.assertEqual(support.digest_of(tensors), metadata["sha256"])
            if there:
                reached = int(there[-1].stem.removeprefix("step-"))
                self.assertGreaterEqual(reached, newest)
                newest = reached
        print(f"({leftovers} times in the middle of saving, {newest} steps reached) ", end="")
        self.assertGreater(newest, 0)
        self.write("run/step-99999999.safetensors.sluice-tmp-1-0", "what a killed run had written")
        self.train(**{**options, "steps": newest + 1}, resume="run")
        self.assert_no_leftovers()
        self.assertEqual(len(self.checkpoints()), 3)

    def test_gives_its_folder_back_but_a_living_one_does_not(self):
        options = dict(steps=1_000_000, checkpoint="run", checkpoint_every=1000)
        process = self.start(*self.train_words(**options))
        try:
            while not self.checkpoints():
                self.assertIsNone(process.poll())
                time.sleep(0.05)
            self.refused(self.train_words(**options, resume="run"), "another run is writing to",
                         "run", "--checkpoint")
        finally:
            process.kill()
            process.communicate()
        self.train(**{**options, "steps": 1001}, resume=self.checkpoints()[0])


if __name__ == "__main__":
    support.main()
