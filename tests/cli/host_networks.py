"""Hosts of their own: network namespaces, joined by a switch in user space that can delay, lose and
cut.

Needs root and namespaces; says so and is skipped where they are not to be had.
"""

import heapq
import json
import os
import random
import select
import shutil
import socket
import subprocess
import threading
import time
import unittest

import support
import workers
from certificates import WithCertificates
from workers import Worker

RUN = dict(layers=2, width=32, length=32, micro_batches=4, micro_batch_size=2, stages=4,
           cut="1,2,2,1", dropout=0.1, steps=12)


class Switch(threading.Thread):
    """Passes each frame from one port on to all others."""

    SOL_PACKET, PACKET_VNET_HDR = 263, 15
    EVERYTHING = socket.htons(3)

    def __init__(self, interfaces):
        super().__init__(daemon=True)
        self.ports = []
        for each in interfaces:
            port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, self.EVERYTHING)
            # Each frame comes with what its sender left to the hardware (checksums, segmentation),
            # and is passed on so.
            port.setsockopt(self.SOL_PACKET, self.PACKET_VNET_HDR, 1)
            port.bind((each, 0))
            self.ports.append(port)
        self.delay = 0.0
        self.cut = set()  # numbers of ports
        self.loss = 0.0  # of frames, each by chance
        self.chance = random.Random(1)
        self.lost = 0
        self.ended = False

    def run(self):
        waiting = []  # (due, order, port it came from, frame)
        order = 0
        while not self.ended:
            timeout = max(0, waiting[0][0] - time.monotonic()) if waiting else 0.1
            ready, _, _ = select.select(self.ports, [], [], min(timeout, 0.1))
            for port in ready:
                frame, address = port.recvfrom(1 << 17)
                if address[2] != socket.PACKET_OUTGOING:
                    order += 1
                    heapq.heappush(waiting, (time.monotonic() + self.delay, order,
                                             self.ports.index(port), frame))
            while waiting and waiting[0][0] <= time.monotonic():
                _, _, source, frame = heapq.heappop(waiting)
                self.pass_on(source, frame)

    def pass_on(self, source, frame):
        if self.chance.random() < self.loss:
            self.lost += 1
            return
        for number, port in enumerate(self.ports):
            if number != source and not self.cut & {number, source}:
                try:
                    port.send(frame)
                except OSError:
                    pass  # No room: the frame is lost, as on any wire.

    def end(self):
        self.ended = True
        self.join(workers.DEADLINE)
        for port in self.ports:
            port.close()


class SeveralHosts(WithCertificates):
    made = 0  # times that hosts were made: namespaces go a while after they are deleted

    def setUp(self):
        super().setUp()
        SeveralHosts.made += 1
        self.names = [f"sl{os.getpid()}t{SeveralHosts.made}h{i}" for i in range(5)]
        try:
            for number, name in enumerate(self.names):
                self.make_host(number, name)
            self.switch = Switch([f"{name}s" for name in self.names])
        except (OSError, subprocess.CalledProcessError) as problem:
            self.skipTest(f"NO NETWORK NAMESPACES HERE, nothing was tested: {problem}")
        self.switch.start()
        self.addCleanup(self.switch.end)

    def make_host(self, number, name):
        self.ip("netns", "add", name)
        self.addCleanup(self.ip, "netns", "delete", name)
        self.ip("link", "add", f"{name}s", "type", "veth", "peer", "name", "eth0", "netns", name)
        self.ip("link", "set", f"{name}s", "up")
        inside = ["-n", name]
        self.ip(*inside, "address", "add", f"10.99.0.{number + 1}/24", "dev", "eth0")
        self.ip(*inside, "link", "set", "eth0", "up")
        self.ip(*inside, "link", "set", "lo", "up")

    def ip(self, *words):
        subprocess.run(["ip", *words], check=True, capture_output=True)

    def inside(self, number):
        return ["ip", "netns", "exec", self.names[number]]

    def workers_on_hosts(self, *words):
        return [Worker(self, *self.of("ours"), *words, listen=f"10.99.0.{i + 1}:4711",
                       command=self.inside(i)) for i in range(1, 5)]

    def start_run(self, there, **options):
        words = [*self.train_words(**{**RUN, **options}, workers=self.addresses(there),
                                   json="out.json"), *self.of("ours")]
        run = subprocess.Popen([*self.inside(0), support.binary, *map(str, words)],
                               cwd=self.folder, text=True, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(run.kill)
        return run

    def results_of(self, run):
        _, messages = run.communicate(timeout=120)
        self.assertEqual(run.returncode, 0, messages)
        return json.loads((self.folder / "out.json").read_text())

    def wait_for_step(self, run, number):
        for line in run.stderr:
            if line.startswith(f"step {number}/"):
                return
        self.fail("the run has ended")

    def weights_alone(self, **options):
        return self.results(**{**RUN, "stages": 1, "cut": None, **options})["weights_sha256"]

    def test_give_the_weights_of_one_process(self):
        run = self.start_run(self.workers_on_hosts())
        results = self.results_of(run)
        self.assertEqual(results["weights_sha256"], self.weights_alone())
        self.assertEqual(results["faults"], [])

    def test_twenty_milliseconds_apart_give_the_same_weights(self):
        self.switch.delay = 0.02
        run = self.start_run(self.workers_on_hosts())
        results = self.results_of(run)
        self.assertEqual(results["weights_sha256"], self.weights_alone())
        self.assertGreater(results["seconds_per_step"], 0.02 * 2 * 3)

    def test_that_lose_one_frame_in_fifty_give_the_same_weights(self):
        self.switch.loss = 0.02
        run = self.start_run(self.workers_on_hosts("--fault-deadline", 30), fault_deadline=30)
        results = self.results_of(run)
        self.assertEqual(results["weights_sha256"], self.weights_alone())
        self.assertEqual(results["faults"], [])
        self.assertGreater(self.switch.lost, 0)

    def test_sit_out_a_cut_that_is_shorter_than_the_deadline(self):
        there = self.workers_on_hosts("--fault-deadline", 30)
        run = self.start_run(there, fault_deadline=30, steps=60)
        self.wait_for_step(run, 6)
        self.switch.cut = {2}
        time.sleep(3)
        self.switch.cut = set()
        results = self.results_of(run)
        self.assertEqual(results["faults"], [])
        self.assertEqual(results["weights_sha256"], self.weights_alone(steps=60))

    def test_cost_steps_but_no_bit_each_time_one_is_cut_off_and_comes_back(self):
        there = self.workers_on_hosts("--fault-deadline", 2)
        run = self.start_run(there, fault_deadline=2, join_deadline=30, steps=100, checkpoint="run",
                             checkpoint_every=5)
        for trial, cut in enumerate([3, 1, 4]):
            reached = len(self.checkpoints()) and self.checkpoints()[-1].stem
            self.wait_until(lambda: self.checkpoints() and self.checkpoints()[-1].stem != reached)
            self.switch.cut = {cut}
            there[cut - 1].wait_for_log("free again", trial + 1)
            self.switch.cut = set()
        results = self.results_of(run)
        self.assertGreaterEqual(len(results["faults"]), 3)
        self.assertEqual(len(results["stages"]), 4)
        shutil.rmtree(self.folder / "run")
        self.assertEqual(results["weights_sha256"], self.weights_alone(steps=100))

    def test_go_on_without_one_that_is_cut_off_for_good(self):
        there = self.workers_on_hosts("--fault-deadline", 2)
        run = self.start_run(there, fault_deadline=2, join_deadline=2, steps=60, checkpoint="run",
                             checkpoint_every=5)
        self.wait_for_step(run, 6)
        self.switch.cut = {2}
        there[1].wait_for_log("free again")
        results = self.results_of(run)
        self.assertEqual(len(results["stages"]), 3)
        self.assertIn(there[1].address, " ".join(results["faults"]))
        shutil.rmtree(self.folder / "run")
        self.assertEqual(results["weights_sha256"], self.weights_alone(steps=60))


if __name__ == "__main__":
    support.main()
