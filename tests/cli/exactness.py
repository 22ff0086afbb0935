"""However a run is cut, ordered, recomputed, interrupted or continued: the same weights."""

import csv
import shutil
import unittest

import support


class TheSameWeights(support.CommandTest):
    def setUp(self):
        super().setUp()
        self.wanted = self.results(stages=1, dropout=0.2)["weights_sha256"]

    def test_come_from_any_number_of_stages_under_any_synchronous_schedule(self):
        # zb-v and its kin cut into two chunks a stage, of four layers in all.
        for schedule, stages in [("gpipe", (2, 3, 4)), ("1f1b", (1, 2, 3, 4)), ("zb-h1", (2, 4)),
                                 ("zb-h2", (2, 4)), ("interleaved", (2,)),
                                 ("interleaved-zb", (2,)), ("zb-v", (2,)), ("v-half", (2,)),
                                 ("v-min", (2,)), ("dualpipe-v", (2,))]:
            for count in stages:
                with self.subTest(schedule=schedule, stages=count):
                    batches = {"micro_batches": 4, "micro_batch_size": 1} \
                        if schedule == "dualpipe-v" else {}
                    wanted = self.wanted if not batches else self.results(
                        stages=1, dropout=0.2, **batches)["weights_sha256"]
                    got = self.results(stages=count, schedule=schedule, dropout=0.2, **batches)
                    self.assertEqual(got["weights_sha256"], wanted)
                    self.assertEqual(len(got["stages"]), count)

    def test_come_with_recomputation_another_cut_and_more_threads(self):
        for options in [dict(stages=2, recompute=True), dict(stages=2, cut="1,3"),
                        dict(stages=3, cut="2,1,1", recompute=True), dict(stages=2, threads=2),
                        dict(stages=2, schedule="gpipe", recompute=True)]:
            with self.subTest(**options):
                self.assertEqual(self.results(dropout=0.2, **options)["weights_sha256"],
                                 self.wanted)

    def test_have_the_digest_that_the_definition_gives_for_the_checkpoint(self):
        done = self.results(stages=2, dropout=0.2, checkpoint="run")
        (file,) = self.checkpoints()
        self.assertEqual(file.name, "step-00000003.safetensors")
        self.assertEqual(support.weights_sha256(file), self.wanted)
        self.assertEqual(done["weights_sha256"], self.wanted)

    def test_differ_with_the_seed_the_text_and_the_learning_rate(self):
        other = self.write("other.txt", support.TEXT[::-1])
        for options in [dict(seed=2), dict(data=other), dict(lr=0.01), dict(dropout=0)]:
            with self.subTest(**options):
                self.assertNotEqual(
                    self.results(**{"dropout": 0.2, **options})["weights_sha256"], self.wanted)


class AResumedRun(support.CommandTest):
    def rows(self, name):
        with open(self.folder / name, newline="") as file:
            return [{k: v for k, v in row.items() if k != "seconds"}
                    for row in csv.DictReader(file)]

    def test_equals_the_undisturbed_one_with_other_stages_and_another_schedule(self):
        whole = self.results(steps=6, stages=1, dropout=0.2, checkpoint="run", checkpoint_every=3,
                             report="whole.csv", evaluate_every=2)
        half = self.checkpoints()[0]
        self.assertEqual(half.name, "step-00000003.safetensors")
        self.assertEqual([row["step"] for row in self.rows("whole.csv")], list("123456"))
        for how in [dict(stages=3, schedule="1f1b"), dict(stages=2, schedule="zb-v"),
                    dict(stages=4, schedule="gpipe", recompute=True)]:
            with self.subTest(**how):
                shutil.rmtree(self.folder / "again", ignore_errors=True)
                rest = self.results(steps=6, resume=half, checkpoint="again", report="rest.csv",
                                    dropout=0.2, evaluate_every=2, **how)
                self.assertEqual(rest["weights_sha256"], whole["weights_sha256"])
                self.assertEqual(rest["steps"], 6)
                self.assertEqual(self.rows("rest.csv"), self.rows("whole.csv")[3:])
                self.assertEqual(support.read_safetensors(self.checkpoints("again")[-1]),
                                 support.read_safetensors(self.checkpoints("run")[-1]))

    def test_takes_what_it_is_not_told_from_the_checkpoint(self):
        whole = self.results(steps=6, dropout=0.2, seed=5, lr=0.01, optimizer="sgd",
                             checkpoint="run", checkpoint_every=3)
        half = self.checkpoints()[0]
        rest = self.run_command("train", "--data", self.text, "--resume", half, "--stages", 2,
                                "--sample", 0, "--json", "rest.json")
        self.assertIn("continuing after step 3", rest.stderr)
        self.assertIn(whole["weights_sha256"], (self.folder / "rest.json").read_text())

    def test_goes_on_in_its_own_folder_from_the_newest_checkpoint(self):
        self.train(steps=6, checkpoint="run", checkpoint_every=3)
        self.train(steps=8, checkpoint="run", resume="run")
        self.assertEqual([p.name for p in self.checkpoints()],
                         [f"step-{n:08}.safetensors" for n in (3, 6, 8)])

    def test_says_so_when_the_text_is_another_one(self):
        self.train(checkpoint="run")
        other = self.write("other.txt", support.TEXT[::-1])
        done = self.train(steps=4, resume="run", data=other)
        self.assertIn("the text is not the one", done.stderr)


if __name__ == "__main__":
    support.main()
