#!/usr/bin/env python3
"""Writes scikit-learn's handwritten digits as text: 64 grey values and the digit, a line each.

    get_digits.py TO.csv

From an installed scikit-learn, or else from its wheel, which pip fetches without installing it.
Source: E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI (1998).
"""

import gzip
import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import zipfile

INSIDE = "sklearn/datasets/data/digits.csv.gz"


def packed_digits():
    spec = importlib.util.find_spec("sklearn")
    if spec is not None and spec.origin:
        return (pathlib.Path(spec.origin).parent.parent / INSIDE).read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                        "--disable-pip-version-check", "--only-binary=:all:", "--dest", folder,
                        "scikit-learn"], check=True)
        wheel, = pathlib.Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            return archive.read(INSIDE)


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: get_digits.py TO.csv")
    text = gzip.decompress(packed_digits())
    if text.count(b"\n") != 1797:
        sys.exit("get_digits: expected 1797 digits")
    pathlib.Path(sys.argv[1]).write_bytes(text)
    print(f"1797 digits in {sys.argv[1]}")


if __name__ == "__main__":
    main()
