"""`sluice profile`, and the way from it by `sluice plan` to `sluice train`."""

import json
import shlex
import unittest

from run_sluice import SluiceTest

SMALL = "--layers 6 --width 32 --heads 2 --length 32 --micro-batch-size 2".split()
KEYS = {
    "name", "forward", "backward", "weight", "activation_bytes", "output_bytes", "parameter_bytes",
}


class ProfileTest(SluiceTest):
    def profile(self, model="gpt"):
        self.output("profile", "--model", model, *SMALL, "--json", "layers.json")
        return json.loads((self.folder / "layers.json").read_text())

    def test_every_layer_has_its_times_and_bytes(self):
        for model in ("gpt", "mlp"):
            with self.subTest(model):
                got = self.profile(model)
                self.assertGreaterEqual(len(got["layers"]), 6)
                for layer in got["layers"]:
                    self.assertEqual(KEYS - set(layer), set())
                    self.assertGreater(layer["forward"], 0)
                    self.assertLess(layer["forward"], 10)

    def test_parameter_bytes_add_up_to_the_model(self):
        layers = self.profile()["layers"]
        width, length, values = 32, 32, 256
        block = 12 * width * width + 13 * width
        tables = (values + length) * width
        head = values * width + 2 * width # tied weights count where they are held
        expected = 4 * (6 * block + tables + head)
        self.assertEqual(sum(layer["parameter_bytes"] for layer in layers), expected)

    def test_a_table_shows_the_layers(self):
        text = self.output("profile", *SMALL)
        for word in ("F ms", "B ms", "W ms", "activation MiB", "all"):
            self.assertIn(word, text)

    def test_only_what_is_in_this_build_is_measured(self):
        for command in (("profile",), ("plan", "--model", "gpt", "--stages", 2)):
            for device, word in (("cuda:99", "cuda:99: "), ("cuda:x", "as in cuda:0"),
                                 ("cuda:-1", "as in cuda:0"), ("tpu", "not a device"),
                                 ("emulated", "nothing to measure")):
                self.assertIn(word, self.refused(*command, "--device", device, *SMALL))

    def test_only_devices_that_are_there_are_offered_by_a_worker(self):
        for device, word in (("cuda:99", "cuda:99: "), ("cpu,cuda:99", "cuda:99: "),
                             ("cuda:x", "as in cuda:0"), ("tpu", "not a device"),
                             ("cpu,cpu", "cpu or GPUs"), ("emulated", "give it alone")):
            self.assertIn(word,
                          self.refused("worker", "--listen", "127.0.0.1:0", "--device", device))


class SearchTest(SluiceTest):
    def search(self, *more):
        self.output("profile", "--model", "gpt", *SMALL, "--json", "layers.json")
        return self.json("plan", "--profile", "layers.json", "--micro-batches", 8, *more)

    def run_what_it_says(self, line):
        words = shlex.split(line)
        self.assertEqual(words[:2], ["sluice", "train"])
        return self.json(*words[1:], "--steps", 1, "--seed", 5)

    def test_train_runs_the_best_plan(self):
        got = self.search("--stages", 3, "--memory", "24GiB")
        self.assertIs(got["live"], True)
        self.assertGreater(len(got["proposals"]), 3)
        steps = [proposal["step"] for proposal in got["proposals"]]
        self.assertEqual(steps, sorted(steps))
        trained = self.run_what_it_says(got["train"])
        self.assertEqual(len(trained["stages"]), got["stages"])

    def test_train_runs_a_plan_that_recomputes(self):
        roomy = self.search("--stages", 2, "--compare", "1f1b", "--memory", "1GiB")
        peak = max(roomy["proposals"][0]["peak_bytes"])
        for share in (0.9, 0.8, 0.7, 0.6):
            done = self.run_sluice("plan", "--profile", "layers.json", "--micro-batches", 8,
                                   "--stages", 2, "--compare", "1f1b",
                                   "--memory", int(peak * share), "--json", "tight.json")
            if done.returncode != 0:
                continue
            tight = json.loads((self.folder / "tight.json").read_text())
            if "--recompute" in tight["train"]:
                self.run_what_it_says(tight["train"])
                return
        self.fail("no budget made a plan recompute")

    def test_a_slow_stage_gets_fewer_layers(self):
        got = self.search("--stages", 2, "--compare", "1f1b", "--slow-rank", "1:4")
        (first, middle), (_, last) = got["proposals"][0]["parts"]
        self.assertGreater(middle - first, last - middle)

    def test_each_stage_may_have_a_memory_of_its_own(self):
        roomy = self.search("--stages", 2, "--memory", "1GiB,1GiB")
        self.assertIn(2, {each["stages"] for each in roomy["proposals"]})
        tight = self.search("--stages", 2, "--memory", "1GiB,1KiB")
        self.assertEqual({each["stages"] for each in tight["proposals"]}, {1})
        refused = self.refused("plan", "--profile", "layers.json", "--stages", 2,
                               "--memory", "1GiB,1GiB,1GiB")
        self.assertIn("3 sizes for 2 stages", refused)

    def test_too_little_memory_says_so(self):
        self.output("profile", "--model", "gpt", *SMALL, "--json", "layers.json")
        done = self.run_sluice("plan", "--profile", "layers.json", "--stages", 2,
                               "--memory", "1KiB")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("no plan fits", done.stderr)

    def test_a_model_is_measured_on_the_way(self):
        got = self.json("plan", "--model", "mlp", *SMALL, "--stages", 2, "--memory", "1GiB")
        self.assertIn("--model mlp", got["train"])
        self.run_what_it_says(got["train"])

    def test_a_profile_that_is_none_is_refused(self):
        (self.folder / "bad.json").write_text('{"layers": [{"forward": 1}]}')
        self.assertIn("layer 0 needs a number 'backward'",
                      self.refused("plan", "--profile", "bad.json"))
        self.assertIn("cannot read", self.refused("plan", "--profile", "missing.json"))
        (self.folder / "odd.json").write_text(
            '{"recipe": {"model": 3}, "layers": [{"forward": 1, "backward": 1, "weight": 1, '
            '"activation_bytes": 1, "output_bytes": 1, "parameter_bytes": 1}]}')
        self.assertIn("recipe", self.refused("plan", "--profile", "odd.json"))


if __name__ == "__main__":
    unittest.main()
