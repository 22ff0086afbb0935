"""What the end-to-end tests of the command share: a folder for each test, small networks, and an
independent reader of checkpoints."""

import hashlib
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

SKIPPED = 77  # what ctest takes for "skipped"

# Of every wait, in seconds: against hanging for ever, so sanitizers may have more.
DEADLINE = float(os.environ.get("SLUICE_TEST_DEADLINE", 60))

SANITIZED = "TSAN_OPTIONS" in os.environ or "ASAN_OPTIONS" in os.environ

binary = None  # the path of the command, from the command line

# A text that the tests own, of 12 kB: the machine's licences may change.
TEXT = "".join(f"{i}: the quick brown fox {i * i} jumps over {i % 7} lazy dogs.\n"
               for i in range(200))

# One step of this takes about a millisecond. Four layers to cut: embedding, attention, MLP, head.
SMALL = dict(layers=1, width=16, heads=2, length=16, micro_batches=2, micro_batch_size=2,
             sample=0, evaluate_every=0, evaluate_sequences=4)


def arguments(options):
    """micro_batches=2, recompute=True -> --micro-batches 2 --recompute"""
    made = []
    for key, value in options.items():
        name = "--" + key.replace("_", "-")
        if value is True:
            made.append(name)
        elif value is not None:
            made += [name, str(value)]
    return made


def read_safetensors(path):
    """(metadata, {name: (type, shape, bytes)}), by the format's own description."""
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    metadata = header.pop("__metadata__", {})
    body = data[8 + length:]
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        assert 0 <= begin <= end <= len(body), f"{name}: {begin} to {end} of {len(body)}"
        tensors[name] = (entry["dtype"], entry["shape"], body[begin:end])
    assert sum(len(each[2]) for each in tensors.values()) == len(body)
    return metadata, tensors


def digest_of(tensors):
    digest = hashlib.sha256()
    for name in sorted(tensors, key=str.encode):
        kind, shape, data = tensors[name]
        digest.update(name.encode() + b"\0" + kind.encode() + b"\0")
        digest.update(",".join(map(str, shape)).encode() + b"\0" + data)
    return digest.hexdigest()


def weights_sha256(path):
    """The digest that the command reports, from the file alone."""
    _, tensors = read_safetensors(path)
    return digest_of({n: t for n, t in tensors.items() if not n.startswith("optimizer.")})


class CommandTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="sluice-e2e-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.text = self.write("text.txt", TEXT)

    def write(self, name, content):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def start(self, *words, **popen):
        return subprocess.Popen([binary, *map(str, words)], cwd=self.folder, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, **popen)

    def run_command(self, *words, code=0, **run):
        """Runs the command, and fails with its messages unless it ends with `code`."""
        done = subprocess.run([binary, *map(str, words)], cwd=self.folder, capture_output=True,
                              stdin=subprocess.DEVNULL, timeout=DEADLINE, errors="replace", **run)
        self.assertEqual(done.returncode, code,
                         f"{' '.join(map(str, words))}\n--- stdout\n{done.stdout}\n--- stderr\n"
                         f"{done.stderr}")
        return done

    def train_words(self, **options):
        return ["train", *arguments({"data": self.text, **SMALL, "steps": 3, **options})]

    def train(self, *more, code=0, **options):
        return self.run_command(*self.train_words(**options), *more, code=code)

    def results(self, **options):
        """What a run says of itself in JSON."""
        return json.loads(self.train(**options, json="-").stdout)

    def refused(self, words, *parts, code=2):
        """The command ends with `code`, an error that has all the parts, and no result."""
        done = self.run_command(*words, code=code)
        for part in parts:
            self.assertIn(str(part), done.stderr)
        self.assertTrue(done.stderr.splitlines()[-1].startswith("error: "), done.stderr)
        self.assertEqual(done.stdout, "")
        return done

    def checkpoints(self, folder="run"):
        return sorted((self.folder / folder).glob("step-*.safetensors"))

    def assert_no_leftovers(self, folder="run"):
        self.assertEqual([p.name for p in (self.folder / folder).iterdir() if "tmp" in p.name], [])


def main():
    """python3 FILE BINARY [unittest's own arguments]"""
    global binary
    sys.modules["support"].binary = binary = os.path.abspath(sys.argv.pop(1))
    ran = unittest.main(module="__main__", exit=False, verbosity=2).result
    if not ran.wasSuccessful():
        sys.exit(1)
    if ran.testsRun and len(ran.skipped) == ran.testsRun:
        sys.exit(SKIPPED)
