"""bfloat16 with float32 masters, from the command line: train, resume, generate, plan, workers."""

import json

import support

BRIEF = dict(precision="bfloat16", dropout=0.2)


class TrainingInBfloat16(support.CommandTest):
    def setUp(self):
        super().setUp()
        self.alone = self.results(**BRIEF, stages=1)

    def test_gives_the_same_weights_for_any_stages_schedule_and_processes(self):
        for how in [dict(stages=2), dict(stages=4, recompute=True),
                    dict(stages=2, schedule="zb-v")]:
            with self.subTest(**how):
                self.assertEqual(self.results(**BRIEF, **how)["weights_sha256"],
                                 self.alone["weights_sha256"])
        words = self.train_words(**BRIEF, stages=2, json="-")[1:]
        launched = self.run_command("launch", "-n", 2, *words)
        self.assertEqual(json.loads(launched.stdout)["weights_sha256"],
                         self.alone["weights_sha256"])

    def test_is_not_the_default(self):
        self.assertNotEqual(self.results(dropout=0.2, stages=1)["weights_sha256"],
                            self.alone["weights_sha256"])
        self.assertEqual(
            self.results(dropout=0.2, stages=1, precision="float32")["weights_sha256"],
            self.results(dropout=0.2, stages=1)["weights_sha256"])

    def test_keeps_float32_masters_in_checkpoints_and_goes_on_from_them(self):
        whole = self.results(**BRIEF, steps=4, stages=1, checkpoint="run", checkpoint_every=2)
        half, end = self.checkpoints()
        metadata, tensors = support.read_safetensors(end)
        self.assertEqual({kind for kind, _, _ in tensors.values()}, {"F32"})
        self.assertEqual(support.weights_sha256(end), whole["weights_sha256"])
        self.assertEqual(json.loads(metadata["recipe"])["precision"], "bfloat16")
        # Not merely bfloat16 in wider clothes: bits below its eight are in use.
        _, _, data = tensors["wte.weight"]
        self.assertTrue(any(data[i] | data[i + 1] for i in range(0, len(data), 4)))
        rest = self.results(steps=4, stages=3, resume=half)
        self.assertEqual(rest["weights_sha256"], whole["weights_sha256"])
        text = [self.run_command("generate", "--checkpoint", "run", "--prompt", "1: the",
                                 "--tokens", 8, "--stages", stages).stdout for stages in (1, 3)]
        self.assertEqual(*text)
        self.assertTrue(text[0].startswith("1: the"))

    def test_takes_an_mlp_and_a_config_file_too(self):
        self.write("run.toml", '[train]\nprecision = "bfloat16"\nmodel = "mlp"\nlayers = 3\n')
        got = [json.loads(self.run_command(
            "--config", "run.toml",
            *self.train_words(stages=stages, layers=None, json="-")).stdout)["weights_sha256"]
            for stages in (1, 2)]
        self.assertEqual(*got)

    def test_is_followed_by_profile_and_plan(self):
        shape = ["--model", "gpt", "--layers", 2, "--width", 32, "--heads", 2, "--length", 16]
        sizes = {}
        for precision in ("float32", "bfloat16"):
            name = f"{precision}.json"
            self.run_command("profile", *shape, "--precision", precision, "--json", name)
            layers = json.loads((self.folder / name).read_text())["layers"]
            sizes[precision] = [sum(layer[key] for layer in layers)
                                for key in ("parameter_bytes", "output_bytes", "activation_bytes")]
            planned = json.loads(self.run_command(
                "plan", "--profile", name, "--stages", 2, "--micro-batches", 4,
                "--schedule", "1f1b", "--memory", "1GiB", "--json", "-").stdout)
            self.assertTrue(planned["live"])
        for wide, brief in zip(sizes["float32"][:2], sizes["bfloat16"][:2]):
            self.assertLess(brief, 0.51 * wide)
        self.assertLess(sizes["bfloat16"][2], 0.65 * sizes["float32"][2])
        found = self.run_command("plan", "--profile", "bfloat16.json", "--stages", 2, "--memory",
                                 "1GiB").stdout
        self.assertIn("--precision bfloat16", found)

    def test_fills_memory_by_its_own_bytes(self):
        for precision in ("float32", "bfloat16"):
            with self.subTest(precision=precision):
                done = self.results(stages=2, precision=precision, memory="640KiB", credits="auto",
                                    micro_batches=16, width=32)
                for stage in done["stages"]:
                    self.assertLessEqual(stage["peak_bytes"], 640 * 1024)
        words = self.train_words(stages=2, memory="60KiB", credits="auto", width=32)
        needs = [int(self.refused([*words, "--precision", precision], "rank 0 needs").stderr
                     .split("rank 0 needs ")[1].split()[0])
                 for precision in ("float32", "bfloat16")]
        # 18 bytes a weight against 16, of which the largest is counted once more; less scratch.
        self.assertNotEqual(*needs)

    def test_of_another_name_is_refused(self):
        self.refused(self.train_words(precision="fp8"), "--precision", "float32, bfloat16")


if __name__ == "__main__":
    support.main()
