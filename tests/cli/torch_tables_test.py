#!/usr/bin/env python3
"""PyTorch's own checks of the tables that `sluice plan --csv` writes: its schedule runtime's
validation, its insertion of sends and receives, and its simulation of them. Skipped, with a word,
where Python has no torch."""
import csv
import sys

try:
    from torch.distributed.pipelining.schedules import (_Action, _add_send_recv,
                                                        _simulate_comms_compute,
                                                        _validate_schedule)
except ImportError as missing:
    print(f"SKIPPED: {missing}; pip install torch to run this test")
    sys.exit(77)

import unittest

from run_sluice import SluiceTest

STAGES = 4
MICRO_BATCHES = 8


class ATable(SluiceTest):
    def check(self, schedule, chunks):
        self.output("plan", "--schedule", schedule, "--stages", STAGES, "--micro-batches",
                    MICRO_BATCHES, "--csv", "table.csv")
        with open(self.folder / "table.csv", encoding="ascii") as rows:
            actions = {rank: [_Action.from_str(cell) for cell in row]
                       for rank, row in enumerate(csv.reader(rows))}
        stages = STAGES * chunks
        rank_of = _validate_schedule(actions, STAGES, stages, MICRO_BATCHES)
        with_transfers = _add_send_recv(actions, lambda stage: rank_of[stage], stages)
        _simulate_comms_compute(with_transfers, lambda stage: rank_of[stage], stages)

    def test_is_valid_and_finishes(self):
        for schedule, chunks in [("gpipe", 1), ("1f1b", 1), ("zb-h1", 1), ("zb-h2", 1),
                                 ("interleaved", 2), ("interleaved-zb", 2), ("zb-v", 2),
                                 ("v-half", 2), ("v-min", 2), ("dualpipe-v", 2)]:
            with self.subTest(schedule):
                self.check(schedule, chunks)


if __name__ == "__main__":
    unittest.main()
