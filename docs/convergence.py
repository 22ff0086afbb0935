#!/usr/bin/env python3
"""Draws docs/convergence.svg: the same model trained synchronously and by the asynchronous schedules.

    docs/convergence.py build/sluice docs/convergence.svg [option of sluice train]...

Needs matplotlib (Debian: python3-matplotlib). The runs differ in nothing but the schedule: no
clipping and an untied head for all, since the asynchronous ones allow neither.
"""
import csv
import pathlib
import subprocess
import sys
import tempfile

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

SCHEDULES = ["1f1b", "pipedream-2bw", "pipedream"]


def losses(sluice, schedule, options, folder):
    report = pathlib.Path(folder) / f"{schedule}.csv"
    subprocess.run([sluice, "train", "--schedule", schedule, "--clip", "0", "--tied", "false",
                    "--report", report, "--sample", "0", *options],
                   check=True, stdout=subprocess.DEVNULL)
    with report.open() as lines:
        return list(csv.DictReader(lines))


def main(sluice, figure, *options):
    _, axes = plt.subplots(figsize=(7, 4))
    with tempfile.TemporaryDirectory() as folder:
        for schedule in SCHEDULES:
            rows = losses(sluice, schedule, options, folder)
            line, = axes.plot([int(row["step"]) for row in rows],
                              [float(row["loss"]) for row in rows], linewidth=0.8, label=schedule)
            held = [row for row in rows if row["held_out"]]
            axes.plot([int(row["step"]) for row in held],
                      [float(row["held_out"]) for row in held], "o", color=line.get_color(),
                      label=f"{schedule}, held-out text")
            print(f"{schedule:15} first {float(rows[0]['loss']):.3f}, last "
                  f"{float(rows[-1]['loss']):.3f}, held out {float(held[-1]['held_out']):.3f}")
    axes.set(xlabel="step (8 micro-batches)", ylabel="loss, nats a byte")
    axes.grid(alpha=0.3)
    axes.legend()
    plt.tight_layout()
    plt.savefig(figure, metadata={"Date": None})


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
