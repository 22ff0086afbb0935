"""`sluice bench overhead|step|scale|memory`: the fields of their JSON, and that the values make
sense. How fast they are is not tested: this machine may be busy."""

import sys
import unittest

from run_sluice import SluiceTest

KEYS = {"name", "value", "unit", "peer", "peer_value", "ratio"}


class BenchTest(SluiceTest):
    def bench(self, *words):
        """Its cases by name and unit."""
        cases = self.json("bench", *words)["cases"]
        for case in cases:
            self.assertEqual(set(case), KEYS)
            self.assertEqual(case["peer"] is None, case["peer_value"] is None)
            self.assertEqual(case["peer"] is None, case["ratio"] is None)
            if case["unit"] in ("s", "s/step", "tokens/s", "bytes"):
                self.assertGreater(case["value"], 0, case)
            if case["peer"] is not None:
                self.assertGreater(case["peer_value"], 0, case)
                self.assertGreater(case["ratio"], 0, case)
        named = {(case["name"], case["unit"]): case for case in cases}
        self.assertEqual(len(named), len(cases))
        return named

    def test_overhead_compares_steps_with_a_loop_and_says_what_a_task_costs_more(self):
        cases = self.bench("overhead", "--rounds", 1)
        for name in ("default GPT, 1 stage", "tiny GPT, 1 stage", "tiny GPT, 2 stages",
                     "tiny GPT, 4 stages"):
            self.assertEqual(cases[name, "s/step"]["peer"], "the same layers in a loop")
            self.assertIn((name + ", a task", "s more than in a loop"), cases)

    def test_step_counts_tokens(self):
        cases = self.bench("step", "--rounds", 1, "--python", self.folder / "none")
        for name in ("default GPT, 1 stage", "default GPT, 4 stages"):
            step, speed = cases[name, "s/step"], cases[name, "tokens/s"]
            self.assertAlmostEqual(step["value"] * speed["value"], 4 * 128 * 8, delta=1)
            self.assertIsNone(step["peer"])
        text = self.output("bench", "step", "--rounds", 1, "--python", self.folder / "none")
        self.assertIn(f"no PyTorch for {self.folder / 'none'}", text)

    def test_step_stands_beside_pytorch_where_python_has_it(self):
        try:
            import torch # pylint: disable=import-outside-toplevel
        except ImportError as missing:
            self.skipTest(f"{missing}: pip install torch to run this test")
        cases = self.bench("step", "--rounds", 1, "--python", sys.executable)
        self.assertEqual(cases["default GPT, 1 stage", "s/step"]["peer"],
                         f"torch {torch.__version__}, 1 thread")

    def test_a_python_that_is_no_python_is_as_none(self):
        cases = self.bench("step", "--rounds", 1, "--python", "/bin/true")
        self.assertIsNone(cases["default GPT, 1 stage", "s/step"]["peer"])

    def test_scale_compares_with_one_stage(self):
        cases = self.bench("scale", "--rounds", 1)
        for what, unit in (("emulated", "s"), ("default GPT", "s/step")):
            one = cases[f"{what}, 1 stage", unit]
            self.assertIsNone(one["peer"])
            for stages in (2, 4):
                more = cases[f"{what}, {stages} stages", unit]
                # (M + P - 1) / (M P), real ones no faster than their cores.
                planned = one["value"] * (8 + stages - 1) / (8 * stages)
                self.assertGreaterEqual(more["peer_value"], 0.999 * planned)
                if what == "emulated":
                    self.assertAlmostEqual(more["peer_value"], planned)
                    self.assertGreater(more["ratio"], 0.9) # tasks never end early

    def test_memory_is_what_the_plan_predicts(self):
        cases = self.bench("memory")
        self.assertEqual(len({name.split(",")[0] for name, _ in cases}), 11) # schedules
        for (name, unit), case in cases.items():
            self.assertEqual((unit, case["peer"]), ("bytes", "planned"))
            # Credits bound what these hold, whatever the tasks' times; buffers are an eighth larger
            # at most. A busy machine may let the last ranks hold less.
            if name.startswith(("gpipe", "1f1b")):
                self.assertLess(case["ratio"], 1.2, case)
        planned = [cases[f"{schedule}, rank 3", "bytes"]["peer_value"]
                   for schedule in ("gpipe", "1f1b")]
        self.assertEqual(planned[0], 8 * planned[1]) # all micro-batches against one

    def test_no_rounds_are_refused(self):
        self.assertIn("--rounds", self.refused("bench", "overhead", "--rounds", 0))


if __name__ == "__main__":
    unittest.main()
