"""What a user meets every day: help, config files, results, reports, traces, generated text."""

import csv
import json
import unittest
import xml.etree.ElementTree

import support


class Help(support.CommandTest):
    def test_of_each_subcommand_shows_an_example_and_its_options(self):
        names = ["train", "generate", "plan", "trace"]
        whole = self.run_command("--help").stdout
        for name in names:
            with self.subTest(name):
                self.assertIn(f"\n  {name} ", whole)
                text = self.run_command(name, "--help").stdout
                self.assertRegex(text, "Examples?:")
                self.assertIn(f"  sluice {'train' if name == 'trace' else name} ", text)
                self.assertIn("--config FILE", text)
                self.assertNotIn("+308", text)
        self.assertIn("Example:", whole)

    def test_of_train_names_the_defaults(self):
        text = self.run_command("train", "--help").stdout
        for line in ["--layers N .*\\[4\\]", "--schedule NAME .*\\[1f1b\\]", "--keep N .*\\[3\\]"]:
            self.assertRegex(text, line)

    def test_of_the_version_is_a_number(self):
        self.assertRegex(self.run_command("--version").stdout, r"^sluice \d+\.\d+\.\d+\n$")


class AConfigFile(support.CommandTest):
    def test_has_the_options_as_keys_and_the_command_line_goes_before_it(self):
        self.write("small.toml", f"""# a small network
layers = 1
width = 16        # numbers a token
heads = 2
"length" = 16
data = ["{self.text}"]
[train]
micro-batches = 2
micro-batch-size = 2
steps = 5
stages = 2
cut = [1,
  3,  # by hand
]
recompute = true
schedule = '1f1b'
lr = 3e-3
sample = 0
[generate]
tokens = 7
""")
        words = ["train", "--config", "small.toml", "--json", "-"]
        got = json.loads(self.run_command(*words).stdout)
        wanted = self.results(steps=5, lr=3e-3, evaluate_every=50)
        self.assertEqual(got["steps"], 5)
        self.assertEqual(len(got["stages"]), 2)
        self.assertEqual(got["weights_sha256"], wanted["weights_sha256"])
        fewer = json.loads(self.run_command(*words, "--steps", 2, "--stages", 1, "--cut", 4).stdout)
        self.assertEqual(fewer["steps"], 2)
        self.assertEqual(len(fewer["stages"]), 1)

    def test_can_stand_before_the_subcommand_too(self):
        self.write("a.toml", "steps = 4\n")
        words = [w for w in self.train_words(json="-", steps=None)]
        got = json.loads(self.run_command("--config", "a.toml", *words).stdout)
        self.assertEqual(got["steps"], 4)


class TheResults(support.CommandTest):
    KEYS = {"steps", "loss_first", "loss_last", "tokens_per_second", "seconds_per_step", "bubble",
            "stages", "weights_sha256", "faults", "loss_held_out"}

    def test_as_json_have_the_promised_keys_and_nothing_else_is_on_standard_output(self):
        done = self.train(stages=2, json="-", sample=20)
        got = json.loads(done.stdout)
        self.assertLessEqual(self.KEYS, set(got))
        self.assertEqual(got["steps"], 3)
        self.assertEqual(got["faults"], [])
        self.assertAlmostEqual(got["loss_first"], 5.55, delta=0.1)
        self.assertAlmostEqual(got["loss_last"], 5.55, delta=0.1)
        self.assertAlmostEqual(got["loss_held_out"], 5.55, delta=0.1)
        self.assertEqual(len(got["stages"]), 2)
        for stage in got["stages"]:
            self.assertLessEqual({"busy", "bubble", "peak_activations", "peak_bytes"}, set(stage))
            self.assertGreater(stage["peak_bytes"], 0)
            self.assertAlmostEqual(stage["busy"] + stage["bubble"], 1)
        self.assertEqual([s["peak_activations"] for s in got["stages"]], [2, 1])

    def test_go_to_a_file_beside_the_table_for_people(self):
        done = self.train(stages=2, json="out.json", sample=20)
        got = json.loads((self.folder / "out.json").read_text())
        self.assertIn(got["weights_sha256"], done.stdout)
        self.assertRegex(done.stdout, r"(?m)^stage +layers +busy % +bubble %")
        self.assertRegex(done.stdout, r"(?m)^1 +h\.0\.")
        self.assertRegex(done.stdout, r"loss \d\.\d+ -> \d\.\d+ in 3 steps, \d\.\d+ on held-out")
        self.assertIn("--- sample ---\nThe ", done.stdout)
        self.assertRegex(done.stderr, r"step 3/3 \| loss \d\.\d+ \| .* tokens/s \| bubble .*left")

    def test_show_that_the_network_learns(self):
        got = self.results(steps=150, width=32, lr=0.01, warm_up=10, stages=2)
        self.assertLess(got["loss_last"], 3)
        self.assertLess(got["loss_held_out"], 3)
        got = self.results(steps=150, width=32, lr=0.01, warm_up=10, stages=2, model="mlp",
                           layers=2, heads=None)
        self.assertLess(got["loss_last"], got["loss_first"])

    def test_of_a_hopeless_run_are_a_failure_and_an_infinite_loss_is_not_saved(self):
        done = self.train(steps=50, lr=1e30, warm_up=0, clip=0, optimizer="sgd", checkpoint="run",
                          checkpoint_every=1, keep=50, json="out.json", code=1)
        self.assertRegex(done.stderr, "error: step .*no weight has changed.*smaller --lr")
        faults = json.loads((self.folder / "out.json").read_text())["faults"]
        self.assertIn("a gradient was not finite", faults[0])
        self.assertLess(len(self.checkpoints()), 5)

    def test_keep_only_the_newest_checkpoints(self):
        self.train(steps=6, checkpoint="run", checkpoint_every=1, keep=2)
        self.assertEqual([p.name for p in self.checkpoints()],
                         ["step-00000005.safetensors", "step-00000006.safetensors"])
        self.assert_no_leftovers()


class TheReport(support.CommandTest):
    def test_is_the_loss_curve_as_csv_and_svg(self):
        got = self.results(steps=5, report="loss.csv", evaluate_every=2)
        with open(self.folder / "loss.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([row["step"] for row in rows], list("12345"))
        self.assertEqual(float(rows[0]["loss"]), got["loss_first"])
        self.assertEqual(float(rows[-1]["loss"]), got["loss_last"])
        self.assertEqual(float(rows[-1]["held_out"]), got["loss_held_out"])
        self.assertEqual([bool(row["held_out"]) for row in rows], [False, True, False, True, True])
        picture = xml.etree.ElementTree.parse(self.folder / "loss.svg").getroot()
        self.assertTrue(picture.tag.endswith("svg"))

    def test_can_be_named_by_the_picture(self):
        self.train(report="loss.svg")
        self.assertTrue((self.folder / "loss.csv").read_text().startswith("step,loss"))
        self.assertIn("<svg", (self.folder / "loss.svg").read_text())


class TheTrace(support.CommandTest):
    def events(self, **options):
        self.train(trace="t.json", **options)
        return json.loads((self.folder / "t.json").read_text())

    def test_holds_every_task_of_the_last_step_once_and_none_overlap_on_a_stage(self):
        for schedule, kinds in [("1f1b", ("forward", "backward")),
                                ("zb-h1", ("forward", "backward", "weight gradient"))]:
            with self.subTest(schedule):
                made = self.events(stages=2, schedule=schedule, micro_batches=4)
                tasks = [e for e in made["traceEvents"] if e["ph"] == "X"]
                self.assertEqual(
                    sorted((t["tid"], t["cat"], t["args"]["micro_batch"]) for t in tasks),
                    sorted((stage, kind, m)
                           for stage in (0, 1) for kind in kinds for m in range(4)))
                self.assertEqual(min(t["ts"] for t in tasks), 0)
                for stage in (0, 1):
                    mine = sorted((t["ts"], t["dur"]) for t in tasks if t["tid"] == stage)
                    for (start, duration), (following, _) in zip(mine, mine[1:]):
                        self.assertLessEqual(start + duration, following + 1e-3)
                rows = [e["args"]["name"] for e in made["traceEvents"] if e["ph"] == "M"]
                self.assertEqual(rows, ["stage 0", "stage 1"])

    def test_is_drawn_as_text(self):
        self.events(stages=2, micro_batches=3)
        text = self.run_command("trace", "t.json").stdout
        self.assertRegex(text, r"^1f1b, 2 stages, 3 micro-batches, as step 3 ran: .* ms, bubble")
        self.assertRegex(text, r"(?m)^0 \| ?0[ 0-9a-c]*c$")
        self.assertRegex(text, r"(?m)^1 \| ")
        self.assertRegex(text, r"(?m)^ +1 .* 1$")  # one activation at a time on the last stage

    def test_of_emulated_stages_shows_the_plan_itself(self):
        self.run_command("train", "--device", "emulated:F=10ms:B=10ms:W=10ms", "--stages", 4,
                         "--micro-batches", 6, "--steps", 1, "--trace", "t.json")
        made = json.loads((self.folder / "t.json").read_text())
        tasks = [e for e in made["traceEvents"] if e["ph"] == "X"]
        self.assertEqual(len(tasks), 4 * 6 * 2)
        text = self.run_command("trace", "t.json").stdout
        self.assertRegex(text, r"^1f1b, 4 stages, 6 micro-batches, as step 1 ran: ")

    def test_of_another_kind_or_none_is_refused(self):
        self.write("other.json", '{"traceEvents": []}')
        self.refused(["trace", "other.json"], "other.json is no trace that `sluice train --trace`")
        self.refused(["trace", self.text], "text.txt is no trace")
        self.refused(["trace", "none.json"], "cannot read the trace none.json")
        self.refused(["trace", "."], "cannot read the trace .")


class GeneratedText(support.CommandTest):
    def setUp(self):
        super().setUp()
        self.train(steps=60, width=32, lr=0.01, warm_up=5, checkpoint="run", sample=0)

    def generate(self, *more):
        return self.run_command("generate", "--checkpoint", "run", "--tokens", 30, *more).stdout

    def test_begins_with_the_prompt_and_is_the_same_through_any_stages(self):
        one = self.generate("--prompt", "12: the quick")
        self.assertTrue(one.startswith("12: the quick"))
        for more in [[], ["--stages", 3], ["--stages", 2, "--schedule", "gpipe"],
                     ["--stages", 2, "--schedule", "zb-v"], ["--stages", 2, "--cut", "1,3"]]:
            self.assertEqual(self.generate("--prompt", "12: the quick", *more), one, more)

    def test_depends_on_the_seed_and_not_on_chance(self):
        self.assertEqual(self.generate("--sample-seed", 4), self.generate("--sample-seed", 4))
        self.assertNotEqual(self.generate("--sample-seed", 4), self.generate("--sample-seed", 5))
        cold = self.generate("--temperature", 0, "--sample-seed", 4)
        self.assertEqual(cold, self.generate("--temperature", 0, "--sample-seed", 5))

    def test_as_json_is_valid_whatever_bytes_come(self):
        done = self.generate("--temperature", 50, "--json", "-", "--prompt", "é")
        self.assertTrue(json.loads(done)["text"].startswith("é"))
        self.generate("--json", "out.json")
        self.assertIn("The ", json.loads((self.folder / "out.json").read_text())["text"])

    def test_continues_a_prompt_that_is_empty_or_longer_than_a_sequence(self):
        long = "a prompt that is longer than sixteen bytes"
        self.assertTrue(self.generate("--prompt", long).startswith(long))
        self.assertGreater(len(self.generate("--prompt", "")), 20)

    def test_comes_from_an_mlp_too(self):
        self.train(model="mlp", layers=3, checkpoint="mlp", heads=None)
        self.run_command("generate", "--checkpoint", "mlp", "--tokens", 5)


class Benchmarks(support.CommandTest):
    def test_of_transfers_say_what_they_are_compared_with_or_that_there_is_nothing(self):
        done = self.run_command("bench", "transfer", "--rounds", 1, "--json", "-")
        cases = json.loads(done.stdout)["cases"]
        for case in cases:
            self.assertEqual(set(case), {"name", "value", "unit", "peer", "peer_value", "ratio"})
            self.assertGreater(case["value"], 0)
            if case["peer"] is None:
                self.assertEqual((case["peer_value"], case["ratio"]), (None, None))
            else:
                self.assertAlmostEqual(case["ratio"], case["value"] / case["peer_value"])
        names = {case["name"] for case in cases}
        for size in ["64 KiB", "1 MiB", "16 MiB"]:
            self.assertLessEqual({f"edge, {size}", f"edge with checksum, {size}",
                                  f"edge over TLS, {size}"}, names)
        self.assertIn("control messages, 64 under way", names)


if __name__ == "__main__":
    support.main()
