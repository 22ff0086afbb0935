"""`sluice plan`: its JSON, dead plans, comparisons, tables and pictures."""

import json
import unittest
import xml.etree.ElementTree

from run_sluice import SluiceTest

SYNCHRONOUS = (
    "gpipe 1f1b interleaved zb-h1 zb-h2 interleaved-zb zb-v v-half v-min dualpipe dualpipe-v"
).split()


class PlanTest(SluiceTest):
    def plan(self, schedule, stages, micro_batches, *more):
        return self.json(
            "plan", "--schedule", schedule, "--stages", stages, "--micro-batches", micro_batches,
            *more
        )

    def test_json_has_the_keys_that_the_command_line_promises(self):
        for schedule in SYNCHRONOUS + ["pipedream", "pipedream-2bw"]:
            with self.subTest(schedule):
                got = self.plan(schedule, 4, 8)
                self.assertEqual(got["schedule"], schedule)
                self.assertEqual((got["stages"], got["micro_batches"]), (4, 8))
                self.assertIs(got["live"], True)
                self.assertEqual(got["cycle"], [])
                self.assertEqual(len(got["cost"]), 4)
                self.assertEqual(len(got["peak_activations"]), 4)
                self.assertGreaterEqual(got["chunks"], 1)
                self.assertEqual(
                    {"rank", "kind", "chunk", "micro_batch", "start", "end"} - set(got["tasks"][0]),
                    set(),
                )
                work = sum(task["end"] - task["start"] for task in got["tasks"])
                self.assertAlmostEqual(got["bubble"], 1 - work / (4 * got["span"]), places=9)
                self.assertAlmostEqual(got["span"], max(task["end"] for task in got["tasks"]))

    def test_costs_and_peaks_are_the_published_ones(self):
        p, m = 8, 32
        table = {
            "gpipe": (3 * (p - 1), m),
            "1f1b": (3 * (p - 1), p),
            "zb-h1": (p - 1, p),
            "zb-h2": (0, 2 * p - 1),
            "interleaved": (3 * (p - 1) / 2, p + (p - 1) / 2),
            "interleaved-zb": (0, p + (p - 1) / 2),
            "v-half": (1.5 * (p - 1), (p + 2) // 2),
            "zb-v": (0, p),
            "dualpipe": (0, p + 1),
        }
        for schedule, (cost, peak) in table.items():
            with self.subTest(schedule):
                got = self.plan(schedule, p, m)
                self.assertAlmostEqual(max(got["cost"]), cost)
                self.assertAlmostEqual(max(got["peak_activations"]), peak)

    def test_a_dead_plan_is_refused_with_its_cycle(self):
        table = self.folder / "dead.csv"
        table.write_text("0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n")
        done = self.run_sluice("plan", "--schedule", f"file:{table}", "--json", "dead.json")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("rank", done.stderr)
        got = json.loads((self.folder / "dead.json").read_text())
        self.assertIs(got["live"], False)
        self.assertIsNone(got["span"])
        self.assertGreaterEqual(len(got["cycle"]), 2)
        for link, following in zip(got["cycle"], got["cycle"][1:] + got["cycle"][:1]):
            waits_for = link["waits_for"]
            for key in ("rank", "kind", "chunk", "micro_batch"):
                self.assertEqual(waits_for[key], following[key])

    def test_a_comparison_has_a_line_for_each_schedule(self):
        arguments = ("plan", "--stages", 4, "--micro-batches", 12, "--compare", "1f1b,zb-h1,zb-v")
        lines = self.json(*arguments)["compare"]
        self.assertEqual([line["schedule"] for line in lines], ["1f1b", "zb-h1", "zb-v"])
        self.assertEqual([line["cost"] for line in lines], [9, 3, 0])
        text = self.output(*arguments)
        for schedule in ("1f1b", "zb-h1", "zb-v"):
            self.assertIn(f"\n{schedule} ", text)

    def test_a_table_of_actions_written_and_read_is_the_same_plan(self):
        for schedule in ["1f1b", "zb-h1", "interleaved", "v-min", "zb-v"]:
            with self.subTest(schedule):
                written = self.plan(schedule, 4, 8, "--csv", "plan.csv")
                read = self.json("plan", "--schedule", "file:plan.csv")
                self.assertAlmostEqual(written["span"], read["span"])
                self.assertEqual(written["peak_activations"], read["peak_activations"])
                self.assertEqual(written["tasks"], read["tasks"])
                self.plan(schedule, 4, 8, "--csv", "again.csv")
                first, second = (self.folder / name for name in ("plan.csv", "again.csv"))
                self.assertEqual(first.read_text(), second.read_text())

    def test_the_picture_is_well_formed_and_shows_every_task(self):
        tasks = self.plan("zb-h1", 4, 6, "--svg", "plan.svg")["tasks"]
        root = xml.etree.ElementTree.parse(self.folder / "plan.svg").getroot()
        titles = [each for each in root.iter() if each.tag.endswith("}title")]
        self.assertGreaterEqual(len(titles), len(tasks))

    def test_the_same_seed_gives_the_same_noise(self):
        noisy = ("--jitter", "lognormal/0.3", "--seed")
        spans = [self.plan("zb-h1", 4, 8, *noisy, seed)["span"] for seed in (7, 7, 8)]
        self.assertEqual(spans[0], spans[1])
        self.assertNotEqual(spans[0], spans[2])

    def test_what_is_wrong_is_said_with_what_would_be_right(self):
        self.assertIn("1f1b", self.refused("plan", "--schedule", "1f2b"))
        self.assertIn("even", self.refused("plan", "--schedule", "dualpipe", "--stages", 3))
        self.assertIn("lognormal", self.refused("plan", "--jitter", "normal/1"))
        self.assertIn("--profile", self.refused("plan", "--memory", "1GiB"))
        self.assertIn("missing.csv", self.refused("plan", "--schedule", "file:missing.csv"))


if __name__ == "__main__":
    unittest.main()
