"""Who gets in: with certificates those of the same authority, and nobody who talks nonsense."""

import random
import socket
import unittest

import support
import workers
from certificates import WithCertificates
from workers import Worker, WorkersTest

RUN = dict(layers=3, stages=3, dropout=0.1)


class Certificates(WithCertificates):
    def test_of_one_authority_let_a_run_pass_with_the_same_weights(self):
        alone = self.results(**RUN)
        there = self.workers(2, *self.of("ours"))
        done = self.train(*self.of("ours"), **RUN, workers=self.addresses(there), json="out.json")
        self.assertIn(alone["weights_sha256"], (self.folder / "out.json").read_text(), done.stderr)
        self.run_command("status", "--workers", self.addresses(there), *self.of("ours"))

    def test_are_demanded_from_trainers(self):
        there = self.workers(1, *self.of("ours"))
        words = self.train_words(**RUN, workers=there[0].address, join_deadline=2)
        self.refused(words, there[0].address, "cannot be had", "certificates")
        for wrong in [self.of("theirs"), self.of("ours", "theirs")]:
            with self.subTest(wrong):
                self.refused([*words, *wrong], there[0].address, "cannot be had", "authority")
        self.train(*self.of("ours"), **RUN, workers=there[0].address)

    def test_are_demanded_from_workers(self):
        there = self.workers(1)
        self.refused(self.train_words(**RUN, workers=there[0].address, join_deadline=2)
                     + self.of("ours"), there[0].address, "cannot be had")

    def test_let_a_worker_listen_to_other_hosts(self):
        there = Worker(self, *self.of("ours"), listen="0.0.0.0:0")
        port = there.address.rsplit(":", 1)[1]
        self.train(*self.of("ours"), **RUN, workers=f"127.0.0.1:{port}")

    def test_keep_random_bytes_out_at_bounded_memory(self):
        there = Worker(self, *self.of("ours"))
        throw_rubbish_at(there, 500)
        before = workers.resident_kib(there.process)
        throw_rubbish_at(there, 9500)
        self.assert_grown_less(before, workers.resident_kib(there.process), 16 * 1024)
        self.train(*self.of("ours"), **RUN, workers=there.address)


class RandomBytes(WorkersTest):
    def test_leave_a_worker_as_it_was(self):
        there = Worker(self)
        throw_rubbish_at(there, 300)  # docs/hosts.md says what more of it may cost
        self.train(**RUN, workers=there.address)
        there.wait_for_log("free again")


def throw_rubbish_at(worker, times):
    """Waits each time until the worker has hung up, so that it has seen all of it."""
    chance = random.Random(7)
    host, port = worker.address.rsplit(":", 1)
    for _ in range(times):
        with socket.create_connection((host, int(port)), workers.DEADLINE) as to:
            try:
                to.sendall(chance.randbytes(chance.choice([0, 1, 20, 47, 48, 49, 4000])))
                to.shutdown(socket.SHUT_WR)
                while to.recv(4096):
                    pass
            except TimeoutError:
                raise
            except OSError:
                pass  # It has hung up already.


if __name__ == "__main__":
    support.main()
