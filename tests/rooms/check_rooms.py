#!/usr/bin/env python3
"""Checks which room includes which, how long files are, and how wide.

    check_rooms.py ROOT

Arrows go one way: cli, examples -> actors -> net -> kernels. actors/plan points to nobody; kernels
and net know nothing of CAF; nobody includes cli. First it tries itself on a sample in which every
rule is broken once, so that a rule that no longer bites shows.
"""

import pathlib
import re
import sys
import tempfile

# What a room may include, beside itself. The longest name that fits a path is its room.
ARROWS = {
    "kernels": [],
    "net": ["kernels"],
    "actors/plan": [],
    "actors": ["actors/plan", "net", "kernels"],
    "cli": ["actors", "actors/plan", "net", "kernels", "bench", "examples"],
    "examples": ["actors", "actors/plan", "net", "kernels"],
    "bench": ["actors", "actors/plan", "net", "kernels"],
    "tests": ["actors", "actors/plan", "net", "kernels", "bench", "examples"],
    "tests/cli": ["tests", "cli", "actors", "actors/plan", "net", "kernels"],
}
# Written as programs outside of Sluice are.
OUTSIDE = ["examples", "tests", "tests/cli"]
WITHOUT_CAF = ["kernels", "net", "actors/plan"]
WITHOUT_THREADS = ["actors/plan"]
THREADS = re.compile(r"(thread|mutex|shared_mutex|condition_variable|future|semaphore)$")

CODE = {".hpp", ".cpp", ".cu", ".cuh", ".h", ".cc"}
TEXT = CODE | {".py", ".sh", ".cmake"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
LINES, TEST_LINES, COLUMNS = 500, 600, 100


def room_of(path):
    """The room that a path relative to the root lies in, or None."""
    return max((room for room in ARROWS if path.startswith(room + "/")), key=len, default=None)


def broken_include(room, bracket, target):
    """What is wrong with one include of a file in the room, or None."""
    if target.startswith("caf/"):
        return f"{room} includes no CAF" if room in WITHOUT_CAF else None
    if target.startswith("sluice/"):
        return broken_installed_include(room, target.removeprefix("sluice/"))
    if bracket == "<":
        threads = room in WITHOUT_THREADS and THREADS.match(target)
        return f"{room} knows no threads" if threads else None
    to = room_of(target)
    if to is None:
        return f'"{target}" is not written from the root of the project'
    if to == room or to in ARROWS[room]:
        return None
    if to == "cli":
        return "nothing includes cli"
    return f"{room} does not include {to}"


def broken_installed_include(room, target):
    """The same for a header as an installed Sluice has it: <sluice/net/edge.hpp>."""
    if room not in OUTSIDE:
        return f"{room} is a part of Sluice: it writes \"{target}\" from the root"
    to = room_of(target)
    if to is None or to in ARROWS[room]:
        return None  # pipeline.hpp and version.hpp lie in no room
    return f"{room} does not include {to}"


def check_file(root, path):
    """Yields (line, what is broken) for one file."""
    lines = (root / path).read_text(encoding="utf-8").splitlines()
    room = room_of(path)
    is_code = pathlib.PurePath(path).suffix in CODE
    limit = TEST_LINES if path.startswith("tests/") else LINES
    if is_code and len(lines) > limit:
        yield len(lines), f"{len(lines)} lines, {limit} at most"
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS:
            yield number, f"{len(line)} columns, {COLUMNS} at most"
        include = INCLUDE.match(line) if is_code and room else None
        broken = include and broken_include(room, include[1], include[2])
        if broken:
            yield number, broken


def check(root):
    """All complaints about the tree, as 'file:line: rule'."""
    tops = sorted({room.split("/")[0] for room in ARROWS} | {"cmake", "scripts"})
    files = [root / "CMakeLists.txt"] + [f for top in tops for f in (root / top).rglob("*")]
    return [f"{path}:{line}: {broken}"
            for path in sorted(f.relative_to(root).as_posix() for f in files if f.is_file()
                               and (f.suffix in TEXT or f.name == "CMakeLists.txt"))
            for line, broken in check_file(root, path)]


SAMPLE = {
    "actors/plan/a.hpp": '#include "actors/plan/b.hpp"\n#include "kernels/dtype.hpp"\n',
    "actors/plan/b.cpp": "#include <vector>\n#include <thread>\n",
    "actors/c.cpp": '#include "actors/plan/a.hpp"\n#include <caf/all.hpp>\n#include "cli/d.hpp"\n',
    "cli/d.hpp": '#include "actors/c.hpp"\n#include "kernels/dtype.hpp"\n',
    "examples/e.cpp": '#include "cli/d.hpp"\n#include <sluice/cli/d.hpp>\n'
                      '#include <sluice/net/g.hpp>\n#include <sluice/pipeline.hpp>\n',
    "kernels/f.cpp": '  #  include <caf/actor.hpp>\n#include "f.hpp"\n#include "../net/g.hpp"\n',
    "kernels/g.cu": '#include "net/g.hpp"\n#include <sluice/kernels/f.hpp>\n',
    "net/g.hpp": '#include "kernels/f.hpp"\n#include "actors/c.hpp"\n#include "caf/actor.hpp"\n',
    "net/long.hpp": "\n" * 501,
    "tests/net/g_test.cpp": '#include "net/g.hpp"\n#include "tests/support/h.hpp"\n',
    "tests/net/i_test.cpp": '#include "cli/d.hpp"\n' + "\n" * 599,
    "tests/net/long_test.cpp": "\n" * 601,
    "tests/cli/d_test.cpp": '#include "cli/d.hpp"\n//' + "\u00b5" * 98 + "\n//" + "x" * 99 + "\n",
    "cmake/Wide.cmake": "#" * 101 + "\n",
    "CMakeLists.txt": "\n" * 700,
}
COMPLAINTS = [
    "actors/c.cpp:3: nothing includes cli",
    "actors/plan/a.hpp:2: actors/plan does not include kernels",
    "actors/plan/b.cpp:2: actors/plan knows no threads",
    "cmake/Wide.cmake:1: 101 columns, 100 at most",
    "examples/e.cpp:1: nothing includes cli",
    "examples/e.cpp:2: examples does not include cli",
    "kernels/f.cpp:1: kernels includes no CAF",
    'kernels/f.cpp:2: "f.hpp" is not written from the root of the project',
    'kernels/f.cpp:3: "../net/g.hpp" is not written from the root of the project',
    "kernels/g.cu:1: kernels does not include net",
    'kernels/g.cu:2: kernels is a part of Sluice: it writes "kernels/f.hpp" from the root',
    "net/g.hpp:2: net does not include actors",
    "net/g.hpp:3: net includes no CAF",
    "net/long.hpp:501: 501 lines, 500 at most",
    "tests/cli/d_test.cpp:3: 101 columns, 100 at most",
    "tests/net/i_test.cpp:1: nothing includes cli",
    "tests/net/long_test.cpp:601: 601 lines, 600 at most",
]


def check_self():
    """What this script says about the sample, against what it should."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for path, text in SAMPLE.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
        said = check(root)
    return [f"self-test: not found: {line}" for line in COMPLAINTS if line not in said] \
        + [f"self-test: wrongly said: {line}" for line in said if line not in COMPLAINTS]


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: check_rooms.py ROOT")
    complaints = check_self() or check(pathlib.Path(sys.argv[1]))
    print("\n".join(complaints) if complaints else "all rooms are in order")
    sys.exit(1 if complaints else 0)


if __name__ == "__main__":
    main()
