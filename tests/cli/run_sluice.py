"""Runs the real `sluice`, whose path is in the environment variable SLUICE_COMMAND."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest


class SluiceTest(unittest.TestCase):
    """A test with a folder of its own, in which the command runs."""

    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)

    def run_sluice(self, *arguments, timeout=120):
        command = [os.environ["SLUICE_COMMAND"], *map(str, arguments)]
        return subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True,
            errors="replace", timeout=timeout, check=False
        )

    def output(self, *arguments, **options):
        """Standard output of a run that must end well."""
        done = self.run_sluice(*arguments, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def json(self, *arguments, **options):
        """The object that a run which must end well writes to standard output."""
        return json.loads(self.output(*arguments, "--json", "-", **options))

    def refused(self, *arguments, code=2):
        """Standard error of a run that must end with `code` and print nothing."""
        done = self.run_sluice(*arguments)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        return done.stderr
