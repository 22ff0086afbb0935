"""`sluice train --from-environment`: a run whose processes somebody else's launcher has started."""

import json
import os
import signal
import unittest

import support
import workers
from workers import WorkersTest

RUN = dict(layers=3, dropout=0.1)


class ALaunchedRun(WorkersTest):
    def start_ranks(self, count, **options):
        port = workers.free_port()
        ranks = []
        for rank in range(count):
            environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(count),
                               LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1",
                               MASTER_PORT=str(port))
            words = self.train_words(**RUN, **options, json="-" if rank == 0 else None)
            ranks.append(self.start(*words, "--from-environment", env=environment))
            self.addCleanup(ranks[-1].kill)
        return ranks

    def test_gives_the_weights_of_one_process_with_a_stage_for_each(self):
        alone = self.results(**RUN, stages=1)
        ranks = self.start_ranks(3)
        results, messages = ranks[0].communicate(timeout=workers.DEADLINE)
        self.assertEqual(ranks[0].returncode, 0, messages)
        results = json.loads(results)
        self.assertEqual(results["weights_sha256"], alone["weights_sha256"])
        self.assertEqual(len(results["stages"]), 3)
        self.assertIn("started by torchrun as rank 0 of 3", messages)
        for rank in ranks[1:]:
            _, messages = rank.communicate(timeout=workers.DEADLINE)
            self.assertEqual(rank.returncode, 0, messages)

    def test_ends_everywhere_when_its_trainer_is_killed(self):
        ranks = self.start_ranks(3, steps=1_000_000)
        for line in ranks[0].stderr:
            if line.startswith("step 1/"):
                break
        ranks[0].send_signal(signal.SIGKILL)
        ranks[0].communicate()
        for rank in ranks[1:]:
            _, messages = rank.communicate(timeout=workers.DEADLINE)
            self.assertEqual(rank.returncode, 1)
            self.assertIn("rank 0 is gone", messages)

    def test_needs_a_launcher(self):
        environment = {key: value for key, value in os.environ.items()
                       if key not in ("RANK", "WORLD_SIZE", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK",
                                      "JOB_COMPLETION_INDEX")}
        done = self.run_command(*self.train_words(), "--from-environment", code=2, env=environment)
        self.assertIn("neither torchrun, Open MPI, Slurm nor Kubernetes", done.stderr)
        done = self.run_command(*self.train_words(), "--from-environment", code=2,
                                env={**environment, "RANK": "0"})
        self.assertIn("WORLD_SIZE is not set", done.stderr)
        done = self.run_command(*self.train_words(), "--from-environment", code=2,
                                env={**environment, "RANK": "0", "WORLD_SIZE": "2",
                                     "MASTER_ADDR": "0.0.0.0", "MASTER_PORT": "1"})
        self.assertIn("certificates are needed", done.stderr)


if __name__ == "__main__":
    support.main()
