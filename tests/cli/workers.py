"""Worker processes for the tests of several processes: real ones, always ended."""

import os
import pathlib
import signal
import socket
import subprocess
import threading
import time

import support

DEADLINE = support.DEADLINE  # of every wait


class Worker:
    """One `sluice worker`; its log is kept."""

    def __init__(self, test, *words, listen="127.0.0.1:0", command=()):
        self.log = []
        self.process = subprocess.Popen(
            [*command, support.binary, "worker", "--listen", listen, *map(str, words)],
            cwd=test.folder, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)
        test.addCleanup(self.end)
        line = self.process.stdout.readline()
        if not line.startswith("listening on "):
            test.fail(f"the worker did not start: {self.process.stderr.read()}")
        self.address = line.removeprefix("listening on ").strip()
        self.changed = threading.Condition()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stderr:
            with self.changed:
                self.log.append(line)
                self.changed.notify_all()

    def wait_for_log(self, text, times=1):
        """Until a text has been logged so often."""
        with self.changed:
            found = self.changed.wait_for(
                lambda: sum(text in line for line in self.log) >= times, DEADLINE)
        assert found, f"'{text}' was not logged {times} times:\n{''.join(self.log)}"

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(DEADLINE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise
        for pipe in (self.process.stdout, self.process.stderr):
            if not pipe.closed and not (pipe is self.process.stderr and self.is_reading()):
                pipe.close()
        return self.process.returncode

    def is_reading(self):
        self.reader.join(DEADLINE)
        return self.reader.is_alive()


class WorkersTest(support.CommandTest):
    def workers(self, count, *words):
        return [Worker(self, *words) for _ in range(count)]

    def addresses(self, workers):
        return ",".join(each.address for each in workers)

    def wait_until(self, holds, state=lambda: ""):
        """state: says how things are, for the message when the time is up."""
        deadline = time.monotonic() + DEADLINE
        while not holds():
            if time.monotonic() > deadline:
                self.fail(f"not within {DEADLINE} s: {state()}")
            time.sleep(0.02)

    def assert_grown_less(self, before_kib, after_kib, room_kib):
        if not support.SANITIZED:  # sanitizers hold freed memory back, and shadow what is touched
            self.assertLess(after_kib - before_kib, room_kib)

    def threads_and_files(self, process):
        """What a process has open, for a look at whether anything is left over."""
        task = pathlib.Path("/proc") / str(process.pid)
        return len(os.listdir(task / "task")), len(os.listdir(task / "fd"))

    def children_named(self, word):
        """Processes of the command with that subcommand which were started in the test's folder."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                line = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if len(line) > 1 and line[1] == word.encode() \
                        and os.readlink(f"/proc/{pid}/cwd") == str(self.folder):
                    found.append(int(pid))
            except OSError:
                continue  # It has just ended.
        return found


def resident_kib(process):
    for line in pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError("no VmRSS")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
