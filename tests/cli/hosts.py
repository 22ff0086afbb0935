"""One run over several worker processes: the same weights as in one process, and clear refusals."""

import json
import signal
import unittest

import support
import workers
from workers import Worker, WorkersTest

DEEP = dict(layers=3, stages=4, micro_batches=4, dropout=0.1, clip=0.5)


class SeveralProcesses(WorkersTest):
    def test_give_the_weights_of_one_process_byte_for_byte(self):
        """On the text that the command trains on by default."""
        deep = {**DEEP, "data": None}
        alone = self.results(**deep)
        for count in [2, 3, 4]:
            with self.subTest(workers=count):
                there = self.workers(count)
                together = self.results(**deep, workers=self.addresses(there), checkpoint="run",
                                        checksum=True)
                self.assertEqual(together["weights_sha256"], alone["weights_sha256"])
                self.assertEqual(together["loss_last"], alone["loss_last"])
                self.assertEqual(together["faults"], [])
                self.assertEqual(support.weights_sha256(self.checkpoints()[-1]),
                                 alone["weights_sha256"])
                self.assertEqual(len(together["stages"]), 4)
                for each in there:
                    each.wait_for_log("free again")
                support.shutil.rmtree(self.folder / "run")

    def test_run_every_kind_of_schedule(self):
        there = self.addresses(self.workers(2))
        for schedule, more in [("interleaved", dict(stages=2, chunks=2)), ("zb-v", dict(stages=2)),
                               ("dualpipe", dict(stages=2, tied="false")),
                               ("pipedream-2bw", dict(stages=2, clip=0, tied="false"))]:
            with self.subTest(schedule):
                options = {**DEEP, "schedule": schedule, "cut": None, **more}
                alone = self.results(**options)
                together = self.results(**options, workers=there)
                self.assertEqual(together["weights_sha256"], alone["weights_sha256"])

    def test_may_host_some_stages_and_the_trainer_others(self):
        alone = self.results(**DEEP)
        one, other = self.workers(2)
        for places in [["local", one.address, "local", other.address],
                       [one.address, "local", one.address, "local"]]:
            with self.subTest(places):
                mixed = self.results(**DEEP, placement=",".join(places))
                self.assertEqual(mixed["weights_sha256"], alone["weights_sha256"])

    def test_are_used_again_by_the_next_run_with_nothing_left_over(self):
        there = self.workers(2)
        self.train(**DEEP, workers=self.addresses(there))
        for each in there:
            each.wait_for_log("free again")
        before = [self.threads_and_files(each.process) for each in there]  # at least
        for _ in range(5):
            self.train(**DEEP, workers=self.addresses(there))
        for each in there:
            each.wait_for_log("free again", 6)
        for worker, (threads, files) in zip(there, before):
            self.wait_until(lambda: self.threads_and_files(worker.process)[0] <= threads)
            self.wait_until(lambda: self.threads_and_files(worker.process)[1] <= files)

    def test_hold_no_more_however_many_micro_batches_wait_before_a_slow_stage(self):
        """The first stage is an embedding, the second all but the head."""
        there = self.workers(2)
        peaks = []
        for micro_batches in [8, 1000]:
            run = self.results(layers=6, width=32, micro_batches=micro_batches, stages=3, steps=2,
                               cut="1,12,1", workers=self.addresses(there))
            peaks.append([(each["peak_activations"], each["peak_bytes"]) for each in run["stages"]])
        # Chance decides how many of an edge's few receive slots are full at a time.
        slots_bytes = 2 * 3 * 2 * 16 * 32 * 4
        for (few, few_bytes), (many, many_bytes) in zip(*peaks):
            self.assertEqual(many, few)
            self.assertLessEqual(many_bytes, few_bytes + slots_bytes)

    def test_are_launched_by_one_command_and_gone_after_it(self):
        alone = self.results(**DEEP)
        words = self.train_words(**DEEP, json="-")[1:]
        launched = self.run_command("launch", "-n", 3, *words)
        self.assertEqual(json.loads(launched.stdout)["weights_sha256"], alone["weights_sha256"])
        self.assertEqual(self.children_named("worker"), [])

    def test_end_with_the_command_that_launched_them_even_if_it_is_killed(self):
        words = self.train_words(**{**DEEP, "steps": 1_000_000})[1:]
        process = self.start("launch", "-n", 2, *words)
        for line in process.stderr:
            if line.startswith("step 1/"):
                break
        self.assertEqual(len(self.children_named("worker")), 2)
        process.kill()
        process.communicate()
        self.wait_until(lambda: not self.children_named("worker"))


class AWorker(WorkersTest):
    def test_tells_who_has_it(self):
        there = self.workers(2)
        addresses = self.addresses(there)
        state = json.loads(self.run_command("status", "--workers", addresses, "--json", "-").stdout)
        self.assertEqual([each["free"] for each in state["workers"]], [True, True])
        self.assertEqual([each["devices"] for each in state["workers"]], [["cpu"], ["cpu"]])
        self.refused([*self.train_words(**DEEP, workers=addresses), "--nccl"],
                     "--nccl: no worker offers a GPU")
        run = self.start(*self.train_words(**{**DEEP, "steps": 1_000_000}, workers=addresses))
        try:
            for each in there:
                each.wait_for_log("leased to")
            state = json.loads(self.run_command("status", "--workers", addresses, "--json", "-",
                                                "--wait", workers.DEADLINE).stdout)
            self.assertEqual([each["stages"] for each in state["workers"]], [[0, 1], [2, 3]])
            self.assertIn(f"process {run.pid}", state["workers"][0]["holder"])
            self.refused(self.train_words(**DEEP, workers=addresses, join_deadline=0.5),
                         there[0].address, "it is busy: leased to", f"process {run.pid}")
        finally:
            run.send_signal(signal.SIGINT)
            _, messages = run.communicate(timeout=workers.DEADLINE)
        self.assertEqual(run.returncode, 128 + signal.SIGINT, messages)

    def test_is_free_again_when_its_trainer_is_killed(self):
        there = self.workers(2)
        addresses = self.addresses(there)
        for trial in range(1, 4):
            run = self.start(*self.train_words(**{**DEEP, "steps": 1_000_000}, workers=addresses))
            for line in run.stderr:
                if line.startswith("step 1/"):
                    break
            run.kill()
            run.communicate()
            for each in there:
                each.wait_for_log("free again", trial)
        self.train(**DEEP, workers=addresses)

    def test_listens_beyond_this_host_only_with_certificates(self):
        self.refused(["worker", "--listen", "0.0.0.0:0"], "0.0.0.0:0", "certificates are needed",
                     "--tls-ca", "127.0.0.1")
        self.refused(["worker", "--listen", "127.0.0.1:0", "--tls-ca", "ca.pem"], "--tls-cert",
                     "--tls-key", "go together")
        self.refused(["worker", "--listen", "127.0.0.1:0", "--tls-ca", "a", "--tls-cert", "b",
                      "--tls-key", "c"], "cannot read the authority a", code=1)

    def test_says_what_is_wrong_with_its_address(self):
        self.refused(["worker", "--listen", "nonsense"], "--listen", "host:port")
        self.refused(["worker", "--listen", "127.0.0.1:99999"], "--listen", "65535")
        there = Worker(self)
        self.refused(["worker", "--listen", there.address], there.address, code=1)

    def test_hosts_no_more_stages_than_it_offers(self):
        there = self.workers(2, "--slots", 1)
        self.refused(self.train_words(**DEEP, workers=self.addresses(there)), there[0].address,
                     "hosts 1 stage at most", "--slots 2")

    def test_that_is_stopped_by_a_signal_ends_at_once(self):
        there = Worker(self)
        there.process.terminate()
        self.assertEqual(there.process.wait(workers.DEADLINE), 0)


class TheTrainer(WorkersTest):
    def test_says_which_worker_is_not_there(self):
        address = f"127.0.0.1:{workers.free_port()}"
        self.refused(self.train_words(**DEEP, workers=address, join_deadline=0.5), address,
                     "cannot be had", "refused", "sluice worker --listen")

    def test_says_what_is_wrong_with_the_workers_and_places(self):
        self.refused(self.train_words(**DEEP, workers="here"), "--workers", "'here'", "host:port")
        self.refused(self.train_words(**DEEP, workers="a:1,a:1"), "a:1 is there twice")
        self.refused(self.train_words(**DEEP, placement="local,local"),
                     "--placement names 2 places for 4 stages")
        self.refused(self.train_words(device="emulated:F=1ms", workers="a:1"), "--workers",
                     "emulated")

    def test_is_told_by_status_which_is_not_there(self):
        there = Worker(self)
        gone = f"127.0.0.1:{workers.free_port()}"
        done = self.run_command("status", "--workers", f"{there.address},{gone}", "--wait", 0.3,
                                code=1)
        self.assertIn("free", done.stdout)
        self.assertIn("refused", done.stdout)


if __name__ == "__main__":
    support.main()
