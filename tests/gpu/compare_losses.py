#!/usr/bin/env python3
"""Compares the losses of training runs with those of the first.

    compare_losses.py RUN.json RUN.json ...

Each file is what `sluice train --json` wrote. Fails when a first or last loss differs by more than
a hundredth: the processor and GPUs round differently, and twenty steps carry that on.
"""

import json
import sys

ALLOWED = 0.01


def main():
    if len(sys.argv) < 3:
        sys.exit("nothing to compare: " + __doc__.split("\n\n")[1].strip())
    runs = {path: json.load(open(path, encoding="utf-8")) for path in sys.argv[1:]}
    expected = next(iter(runs.values()))
    bad = 0
    for path, run in runs.items():
        for key in ("loss_first", "loss_last"):
            off = abs(run[key] - expected[key]) / expected[key]
            bad += off > ALLOWED
            print(f"{path}: {key} {run[key]:.6f}, off by {off:.2e}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
