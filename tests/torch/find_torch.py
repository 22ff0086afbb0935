#!/usr/bin/env python3
"""Configures Sluice with folders that look like torch, and checks what is taken and what refused.

    find_torch.py SOURCE WORK [CMAKE_OPTION...]
"""

import pathlib
import shutil
import subprocess
import sys

OLD = b"\0_ZN3c105ErrorC1ENS_14SourceLocationESs\0"
NEW = b"\0_ZN3c105ErrorC1ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcE\0"

API = "include/torch/csrc/api/include/torch"
OLD_PLACE = f"{API}/version.h"
NEW_PLACE = "include/torch/headeronly/version.h"


def fake_torch(folder, marker=NEW, version="2.7.1", version_header=OLD_PLACE):
    """A folder with all that is looked at of a torch."""
    shutil.rmtree(folder, ignore_errors=True)
    numbers = "".join(f"#define TORCH_VERSION_{part} {number}\n" for part, number in
                      zip(("MAJOR", "MINOR", "PATCH"), version.split("."), strict=True))
    for file, content in ((folder / API / "torch.h", b""),
                          (folder / version_header, numbers.encode()),
                          (folder / "lib/libtorch_cpu.so", b"\0"),
                          (folder / "lib/libc10.so", marker)):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return folder


def configure(source, work, options, *torch):
    shutil.rmtree(work / "build", ignore_errors=True)
    done = subprocess.run(["cmake", "-S", source, "-B", work / "build", "-DSLUICE_BUILD_TESTS=OFF",
                           *options, *torch], text=True, capture_output=True, check=False)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def main():
    source, work, options = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    old, new = fake_torch(work / "old", OLD), fake_torch(work / "new")
    newer = fake_torch(work / "newer", version="2.15.0", version_header=NEW_PLACE)
    (newer / OLD_PLACE).write_text("#include <torch/headeronly/version.h>\n")
    checks = [
        (("-DSLUICE_TORCH=ON", f"-DSLUICE_TORCH_ROOT={old}"), False,
         "was built with the C++ ABI from before C++11"),
        (("-DSLUICE_TORCH=AUTO", f"-DSLUICE_TORCH_ROOT={old}"), True,
         "no LibTorch adapter: the torch"),
        (("-DSLUICE_TORCH=ON", "-DSLUICE_TORCH_ROOT=/nowhere"), False, "/nowhere holds no include"),
        (("-DSLUICE_TORCH=ON", f"-DSLUICE_TORCH_ROOT={new}"), True,
         f"LibTorch 2.7.1 in {new}"),
        (("-DSLUICE_TORCH=ON", f"-DSLUICE_TORCH_ROOT={newer}"), True,
         f"LibTorch 2.15.0 in {newer}"),
    ]
    for torch, succeeds, wanted in checks:
        code, said = configure(source, work, options, *torch)
        if (code == 0) != succeeds or wanted not in said:
            sys.exit(f"{torch}: expected '{wanted}', exit code {code}:\n{said}")
    print(f"{len(checks)} torches: taken and refused as expected")


if __name__ == "__main__":
    main()
