#!/usr/bin/env python3
"""Takes the first C++ program out of README.md, or runs it and checks what it says.

    readme.py --extract README.md TO.cpp
    readme.py PROGRAM SOURCE.cpp
"""

import pathlib
import re
import subprocess
import sys

LINES = 40  # fewer than that


def main():
    if sys.argv[1] == "--extract":
        text = pathlib.Path(sys.argv[2]).read_text(encoding="utf-8")
        program = re.search(r"^```cpp\n(.*?)^```", text, re.DOTALL | re.MULTILINE)[1]
        pathlib.Path(sys.argv[3]).write_text(program, encoding="utf-8")
        return
    source = pathlib.Path(sys.argv[2]).read_text(encoding="utf-8")
    lines = len(source.splitlines())
    said = subprocess.run([sys.argv[1]], text=True, capture_output=True, check=True).stdout
    losses = [float(loss) for loss in re.findall(r"^step \d+: loss ([\d.]+)$", said, re.MULTILINE)]
    if len(losses) != 21 or losses[-1] > losses[0] / 4 or lines >= LINES:
        sys.exit(f"{lines} lines, losses {losses}")
    readme = pathlib.Path(__file__).resolve().parents[2] / "README.md"
    for line in (said.splitlines()[0], said.splitlines()[-1]):
        if f"\n{line}\n" not in readme.read_text(encoding="utf-8"):
            sys.exit(f"README.md does not show what the program says: {line}")
    print(f"{lines} lines: loss {losses[0]} -> {losses[-1]}")


if __name__ == "__main__":
    main()
