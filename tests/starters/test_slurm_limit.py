# SPDX-License-Identifier: Apache-2.0
"""A job that reaches its time limit under real Slurm. Limits are whole minutes, so this takes one
minute; Slurm checks them only every 30 s."""


from harness import eventually
from test_slurm_ends import Signals as Listening

SOON = 150  # s, until the one-minute limit was noticed and its effects are over


class Limit(Listening):
    def test_a_warning_by_sigusr1_then_the_end(self):
        job, node = self.listen(self.sbatch, 'srun "$@"', "-N2", "--time=1", "--signal=USR1@30",
                                world=2, options=["--max-restarts=3"])
        eventually(lambda: set(self.events("SIGUSR1")) == {"0", "1"}, job.describe, SOON)
        self.assertIsNone(node.process.poll(), "a warning ends nothing")
        eventually(lambda: set(self.events("SIGTERM")) == {"0", "1"}, job.describe, SOON)
        self.end()
        eventually(lambda: node.process.poll() is not None, "the job ends")
        self.assertNotEqual(node.process.returncode, 0)
        for what in ("start", "end"):
            self.assertEqual(self.events(what), ["0", "1"], what)


def load_tests(loader, *_):
    """Not the tests of the base class."""
    return loader.loadTestsFromName("Limit.test_a_warning_by_sigusr1_then_the_end",
                                    __import__(__name__))
