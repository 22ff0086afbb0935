"""`sluice train` on emulated devices, `--credits auto` and `sluice devices`."""

import unittest

from run_sluice import SluiceTest

DEVICE = "emulated:F=10ms:B=10ms:W=10ms"
SMALL = "--layers 8 --width 32 --heads 2 --length 32 --micro-batch-size 2 --micro-batches 8".split()


class EmulatedTest(SluiceTest):
    def emulate(self, *more, device=DEVICE):
        return self.json("train", "--device", device, *more)

    def test_json_has_the_keys_of_training_and_the_spans(self):
        got = self.emulate("--stages", 4, "--micro-batches", 8, "--steps", 1)
        for key in (
            "loss_first loss_last tokens_per_second seconds_per_step bubble weights_sha256 faults"
        ).split():
            self.assertIn(key, got)
        self.assertEqual(got["steps"], 1)
        self.assertAlmostEqual(got["planned_span"], 0.01 * 3 * (8 + 3))
        self.assertEqual(len(got["cost"]), 4)
        self.assertEqual([s["peak_activations"] for s in got["stages"]], [4, 3, 2, 1])
        for stage in got["stages"]:
            self.assertAlmostEqual(stage["busy"], 1 - stage["bubble"])

    def test_no_run_is_shorter_than_planned(self):
        for schedule in ("gpipe", "1f1b", "zb-h1", "zb-v"):
            with self.subTest(schedule):
                got = self.emulate("--schedule", schedule, "--stages", 4, "--micro-batches", 8)
                self.assertGreater(got["span"], 0.99 * got["planned_span"])
                # How much longer it takes is for `sluice bench span`: this machine may be busy.

    def test_sixty_four_stages(self):
        got = self.emulate("--stages", 64, "--micro-batches", 64, "--steps", 1)
        self.assertEqual(len(got["stages"]), 64)
        self.assertEqual(got["stages"][0]["peak_activations"], 64)

    def test_a_table_shows_busy_idle_and_peak(self):
        text = self.output("train", "--device", DEVICE, "--stages", 2, "--steps", 1)
        for word in ("busy", "idle", "planned", "peak activations", "span"):
            self.assertIn(word, text)

    def test_what_needs_weights_is_refused(self):
        for option in ("--checkpoint", "--resume"):
            self.assertIn(option, self.refused("train", "--device", DEVICE, option, "run"))
        self.assertIn("--credits auto",
                      self.refused("train", "--device", DEVICE, "--credits", "auto"))
        self.assertIn("F=ten", self.refused("train", "--device", "emulated:F=ten"))

    def test_lists_of_devices(self):
        mixed = self.refused("train", "--device", f"cpu,{DEVICE}", "--stages", 2)
        self.assertIn("not mixed", mixed)
        self.assertIn("cuda:99: ", self.refused("train", "--device", "cpu,cuda:99", "--stages", 2))
        for wrong in ("cuda:x", "cuda:-1", "cuda:"):
            self.assertIn("as in cuda:0", self.refused("train", "--device", wrong))
        self.assertIn("3 devices for 2 stages",
                      self.refused("train", "--device", "cpu,cpu,cpu", "--stages", 2))
        self.assertIn("tpu", self.refused("train", "--device", "tpu"))
        self.json("train", "--device", "cpu,cpu", "--stages", 2, "--steps", 1, *SMALL)

    def test_devices_lists_what_there_is(self):
        text = self.output("devices")
        self.assertIn("core", text)
        self.assertRegex(text, "not in this build|no GPU|cuda:0")
        names = [each["name"] for each in self.json("devices")["devices"]]
        self.assertEqual(names[:2], ["cpu", "emulated"])
        self.assertTrue(names[2].startswith("cuda"))


class CreditsTest(SluiceTest):
    def train(self, *more):
        return self.json("train", "--stages", 4, "--steps", 2, *SMALL, *more)

    def test_more_credits_change_no_bit(self):
        for schedule in ("1f1b", "zb-h1", "interleaved", "zb-v"):
            with self.subTest(schedule):
                own = self.train("--schedule", schedule)
                auto = self.train(
                    "--schedule", schedule, "--credits", "auto", "--memory", "64MiB")
                self.assertEqual(own["weights_sha256"], auto["weights_sha256"])
                self.assertEqual(own["loss_last"], auto["loss_last"])

    def test_whatever_the_memory_is_what_auto_takes_fits(self):
        for schedule in ("gpipe", "1f1b", "zb-h1", "interleaved", "dualpipe"):
            fitted = 0
            for kibibytes in range(800, 6400, 800):  # what fits depends on the measured cut
                with self.subTest(schedule=schedule, memory=kibibytes):
                    done = self.run_sluice(
                        "train", "--stages", 4, "--steps", 2, *SMALL,
                        "--schedule", schedule, "--credits", "auto", "--memory", f"{kibibytes}KiB")
                    fitted += done.returncode == 0
                    if done.returncode != 0: # refused before it began, not failed while it ran
                        self.assertEqual(done.returncode, 2, done.stderr)
                        self.assertRegex(done.stderr, r"rank \d.* bytes")
            self.assertGreater(fitted, 0)

    def test_a_budget_is_needed_and_one_too_small_names_rank_and_bytes(self):
        arguments = ("train", "--credits", "auto", "--steps", 1, *SMALL)
        self.assertIn("--memory", self.refused(*arguments))
        self.assertRegex(self.refused(*arguments, "--memory", "10KiB"), r"rank \d.* bytes")
        self.assertIn("whole number", self.refused("train", "--credits", "many"))
        self.assertIn("whole number", self.refused("train", "--credits", "0"))


if __name__ == "__main__":
    unittest.main()
