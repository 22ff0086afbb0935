"""The disk runs full while a checkpoint is being saved. Needs a small tmpfs: mounts one where that
is allowed, if need be in a user namespace of its own, and counts as skipped where it is not."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import unittest

import support


class AFullDisk(support.CommandTest):
    def setUp(self):
        super().setUp()
        self.disk = self.folder / "disk"
        self.disk.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "none", self.disk],
                                 capture_output=True, text=True)
        if mounted.returncode != 0:
            self.skipTest("NOT TESTED: no tmpfs may be mounted here: " + mounted.stderr.strip())
        self.addCleanup(subprocess.run, ["umount", self.disk], check=True)

    def test_ends_the_run_with_a_clear_message_and_the_earlier_checkpoints_intact(self):
        done = self.train(steps=100, checkpoint="disk", checkpoint_every=1, keep=100, code=1)
        self.assertIn("cannot write", done.stderr)
        self.assertIn("No space left on device; free some space there and try again", done.stderr)
        self.assert_no_leftovers("disk")
        there = self.checkpoints("disk")
        self.assertGreater(len(there), 1)
        for file in there:
            metadata, tensors = support.read_safetensors(file)
            self.assertEqual(support.digest_of(tensors), metadata["sha256"])
        shutil.copytree(self.disk, self.folder / "roomy")
        reached = len(there)
        rest = self.results(steps=100, checkpoint="roomy", checkpoint_every=0, resume="roomy")
        self.assertEqual(rest["weights_sha256"], self.results(steps=100)["weights_sha256"])
        self.assertLess(reached, 100)

    def test_at_the_first_checkpoint_leaves_none(self):
        (self.disk / "filler").write_bytes(bytes(480 * 1024))
        done = self.train(steps=3, checkpoint="disk", code=1)
        self.assertIn("step-00000003.safetensors: No space left on device", done.stderr)
        self.assertEqual([p.name for p in self.disk.iterdir()], ["filler"])

    def test_on_a_worker_is_none_of_its_concern(self):
        """It writes to its log alone, and does without where that has no room."""
        (self.disk / "filler").write_bytes(bytes(512 * 1024))
        options = dict(layers=3, stages=2, dropout=0.1)
        with open("/dev/full", "w", encoding="ascii") as log:
            there = subprocess.Popen(
                [support.binary, "worker", "--listen", "127.0.0.1:0"], cwd=self.disk, text=True,
                env={**os.environ, "TMPDIR": str(self.disk)}, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=log)
        try:
            address = there.stdout.readline().removeprefix("listening on ").strip()
            for _ in range(2):
                self.assertEqual(self.results(**options, workers=address)["weights_sha256"],
                                 self.results(**options)["weights_sha256"])
        finally:
            there.terminate()
            there.communicate()
        self.assertEqual(there.returncode, 0)
        self.assertEqual([p.name for p in self.disk.iterdir()], ["filler"])

    def test_is_told_of_for_results_too(self):
        with open(self.disk / "filler", "wb") as filler:
            filler.write(bytes(512 * 1024))
        done = self.train(json="disk/out.json", report="disk/loss.csv", code=1)
        self.assertIn("No space left on device", done.stderr)
        self.assertEqual([p.name for p in self.disk.iterdir()], ["filler"])


class AFileThatMayNotGrow(support.CommandTest):
    def test_ends_the_run_with_a_clear_message_and_nothing_half_written(self):
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

        done = self.run_command(*self.train_words(checkpoint="run"), code=1, preexec_fn=limit)
        self.assertIn("step-00000003.safetensors: File too large", done.stderr)
        self.assertEqual(list((self.folder / "run").iterdir()), [])


def may_mount():
    return subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0


if __name__ == "__main__":
    apart = ["unshare", "--map-root-user", "--mount"]
    if not may_mount() and subprocess.run([*apart, "true"], capture_output=True).returncode == 0:
        os.execvp(apart[0], [*apart, sys.executable, *sys.argv])
    support.main()
