# SPDX-License-Identifier: Apache-2.0
"""muster --restart=rank with programs in C++ and in C (muster/elastic.hpp, muster/elastic.h): ranks
are killed in many places, and the job computes the same bits as an undisturbed job."""
import os
import re
import unittest

from harness import JobCase

WORKER = os.environ["MUSTER_ELASTIC_WORKER"]
WORKER_C = os.environ["MUSTER_ELASTIC_WORKER_C"]
LINE = re.compile(r"^([0-9a-f]{16}) commits (\d+) epoch (\d+) resets ?([\d ]*)$", re.M)
STEPS = 40


class Elastic(JobCase):
    undisturbed = {}  # by program

    def train(self, plan="", restarts=1, ranks=4, worker=WORKER, code=0, **variables):
        """The ended job. plan: where ranks kill themselves."""
        env = {**os.environ, "FOLDER": str(self.folder), "STEPS": str(STEPS), "PLAN": plan,
               **variables}
        return self.run_job("--restart=rank", f"--max-restarts={restarts}",
                            f"--nproc-per-node={ranks}", "--no-python", worker, env=env, code=code)

    def lines(self, ended, ranks=4):
        """(hash, commits, epoch, resets) of each rank, sorted by resets."""
        found = sorted(LINE.findall(ended.out), key=lambda line: line[3])
        self.assertEqual(len(found), ranks, ended)
        return found

    def weights(self):
        """Those of an undisturbed job."""
        if WORKER not in self.undisturbed:
            lines = self.lines(self.train())
            self.assertEqual({line[1:] for line in lines}, {(str(STEPS), "1", "")})
            self.undisturbed[WORKER] = lines[0][0]
        return self.undisturbed[WORKER]

    def survives(self, plan, restarts=None, **more):
        """Runs the job with these deaths. Returns the lines of its ranks."""
        words = plan.split()
        ended = self.train(plan, restarts or len(words), **more)
        self.assertNotIn("all workers", ended.err)
        self.assertLessEqual(set(words), set(os.listdir(self.folder)), ended)
        lines = self.lines(ended)
        self.assertEqual({line[:2] for line in lines}, {(self.weights(), str(STEPS))}, ended)
        return lines


class Kills(Elastic):
    def test_a_rank(self):
        lines = self.survives("2:step-20")
        self.assertEqual([line[2:] for line in lines], [("2", "")] + [("2", "20")] * 3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
