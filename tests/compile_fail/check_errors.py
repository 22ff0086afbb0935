#!/usr/bin/env python3
"""Compiles programs that must not compile, and looks at what the compiler says; and at how much the
header to start with brings along.

    check_errors.py COMPILER OPTION...        the programs beside this file
    check_errors.py --weight COMPILER OPTION...

A program's first lines say `// expect: ` and the one error, or `compiles`. One error means: one
line with `error:` in it, so that it can be read.
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent

# What a file that includes only <sluice/pipeline.hpp> may cost, in lines after the preprocessor: a
# measure that does not depend on the machine. The seconds are printed beside it.
LINES = 125_000
HEAVY = ("caf/", "fmt/", "spdlog/", "nlohmann/", "boost/asio", "<thread>", "iostream", "regex")


def compiled(command, source):
    return subprocess.run([*command, "-std=c++20", "-fsyntax-only", str(source)], text=True,
                          capture_output=True, check=False)


def complaint(command, source):
    """What is wrong with what the compiler says of one program, or None."""
    comment = source.read_text(encoding="utf-8").split("#include")[0]
    wanted = " ".join(comment.replace("//", " ").split()).removeprefix("expect: ")
    done = compiled(command, source)
    errors = [line for line in done.stderr.splitlines() if "error:" in line]
    if wanted == "compiles":
        return None if done.returncode == 0 and not done.stderr else "did not compile cleanly:\n" \
            + done.stderr
    if done.returncode == 0:
        return "compiled"
    if len(errors) != 1 or not errors[0].endswith(wanted):
        return f"expected the one error '{wanted}', got:\n" + "\n".join(errors)
    return None


def check_programs(command):
    sources = sorted(HERE.glob("*.cpp"))
    wrong = {source.name: what for source in sources if (what := complaint(command, source))}
    for name, what in wrong.items():
        print(f"{name}: {what}")
    print(f"{len(sources) - len(wrong)} of {len(sources)} programs: as expected")
    return 1 if wrong or not sources else 0


def check_weight(command):
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "only.cpp"
        source.write_text("#include <sluice/pipeline.hpp>\n", encoding="utf-8")
        begin = time.monotonic()
        done = subprocess.run([*command, "-std=c++20", "-O2", "-c", str(source), "-o",
                               str(source.with_suffix(".o"))], check=False)
        seconds = time.monotonic() - begin
        text = subprocess.run([*command, "-std=c++20", "-E", str(source)], text=True,
                              capture_output=True, check=True).stdout
    lines = text.count("\n")
    files = set(re.findall(r'^# \d+ "([^"]+)"', text, re.MULTILINE))
    heavy = sorted(file for file in files if any(part.strip("<>") in file for part in HEAVY
                                                 if "/" in part or file.endswith("/" + part)))
    print(f"<sluice/pipeline.hpp>: {seconds:.2f} s, {lines} lines from {len(files)} files")
    if heavy:
        print("too heavy for it: " + ", ".join(heavy))
    if lines > LINES:
        print(f"{LINES} lines are allowed")
    return 1 if done.returncode != 0 or heavy or lines > LINES else 0


def main():
    arguments = sys.argv[1:]
    if arguments[:1] == ["--weight"]:
        sys.exit(check_weight(arguments[1:]))
    sys.exit(check_programs(arguments))


if __name__ == "__main__":
    main()
