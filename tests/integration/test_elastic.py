# SPDX-License-Identifier: Apache-2.0
"""muster --restart=rank with programs in C++ and in C (muster/elastic.hpp, muster/elastic.h): ranks
are killed in many places, and the job computes the same bits as an undisturbed job."""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from harness import DEADLINE, JobCase, eventually, free_port, read

WORKER = os.environ["MUSTER_ELASTIC_WORKER"]
WORKER_C = os.environ["MUSTER_ELASTIC_WORKER_C"]
LINE = re.compile(r"^([0-9a-f]{16}) commits (\d+) epoch (\d+) resets ?([\d ]*)$", re.M)
STEPS = 40


class Elastic(JobCase):
    undisturbed = {}  # by program

    def environment(self, plan="", **variables):
        """Of a new job. plan: where ranks kill themselves."""
        self.done = tempfile.mkdtemp(dir=self.folder)
        os.mkfifo(f"{self.done}/ready")
        return {**os.environ, "FOLDER": self.done, "STEPS": str(STEPS), "PLAN": plan, **variables}

    def options(self, restarts):
        return ["--restart=rank", f"--max-restarts={restarts}", f"--log-dir={self.done}/logs"]

    def messages(self):
        return "".join(read(path) for path in pathlib.Path(self.done).rglob("events.jsonl"))

    def let_ranks_fail(self, places=()):
        """When ranks have reached these places, and all ranks are ready. Before that, muster would
        restart all ranks."""
        def count():
            return sum(read(path).count('"worker_ready"')
                       for path in pathlib.Path(self.done).rglob("events.jsonl"))

        eventually(lambda: count() >= 4, "all ranks report that they are ready")
        eventually(lambda: set(places) <= set(os.listdir(self.done)), f"ranks reach {places}")
        pipe = os.open(f"{self.done}/ready", os.O_RDWR)
        self.addCleanup(os.close, pipe)

    def train(self, plan="", restarts=1, worker=WORKER, at_once=0, **variables):
        """The ended job. at_once: the number of first places that ranks reach together."""
        env = self.environment(plan, **variables)
        job = self.job(*self.options(restarts), "--nproc-per-node=4", "--no-python", worker,
                       env=env)
        self.let_ranks_fail(plan.split()[:at_once])
        return self.wait_for_exit(job, code=0)

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
        """Runs the job with these deaths. Returns the commits after each reset, for each rank."""
        words = plan.split()
        ended = self.train(plan, restarts or len(words), **more)
        self.assertNotIn("all workers", ended.err)
        self.assertLessEqual(set(words), set(os.listdir(self.done)), ended)
        lines = self.lines(ended)
        self.assertEqual({line[:2] for line in lines}, {(self.weights(), str(STEPS))}, ended)
        return [line[3].split() for line in lines]

    def survives_one(self, plan, commits, **more):
        """Runs the job with one loss. Its survivors continue from the same one of these commits."""
        replaced, first, *others = self.survives(plan, restarts=1, **more)
        self.assertEqual((replaced, others), ([], [first, first]))
        self.assertIn(first, [[str(number)] for number in commits])


class Kills(Elastic):
    def test_each_rank(self):
        """In an operation, a survivor may lose the step that the lost rank has completed."""
        for rank in range(4):
            with self.subTest(rank=rank):
                self.survives_one(f"{rank}:step-20", (19, 20))

    def test_in_every_part_of_a_step(self):
        for place, commits in (("step-1", (0, 1)), ("reduced-9", (9, 10)),
                               ("committed-10", (9, 10)), ("left", (39, 40))):
            with self.subTest(place=place):
                self.survives_one(f"1:{place}", commits)

    def test_two_ranks_at_once(self):
        resets = self.survives("0:step-20 3:step-20", at_once=2)
        self.assertEqual(list(map(bool, resets)), [False, False, True, True])

    def test_the_replacement(self):
        """Before it connects, and when it has the state."""
        self.survives("1:step-20 1:start-2 1:enter-20")

    def test_a_survivor_that_has_the_state_again(self):
        self.survives("3:step-20 0:reset-20 2:step-30")

    def test_ranks_that_communicate_over_tcp(self):
        self.survives("1:step-20 0:step-30 0:start-3", MUSTER_COLLECTIVE_BACKEND="tcp")

    def test_programs_in_c_compute_the_same(self):
        self.assertEqual(self.survives("1:20", worker=WORKER_C), [["0"], ["1"], ["1"], ["1"]])

    def test_ranks_of_two_nodes(self):
        endpoint = f"localhost:{free_port()}"
        env = self.environment("0:step-20 3:step-30")
        nodes = [self.job("--nnodes=2", f"--node-rank={number}", "--nproc-per-node=2",
                          f"--rdzv-endpoint={endpoint}", *self.options(2), "--no-python", WORKER,
                          env={**env, "XDG_STATE_HOME": f"{self.folder}/{number}"})
                 for number in range(2)]
        self.let_ranks_fail()
        for node in nodes:
            ended = self.wait_for_exit(node, code=0)
            lines = self.lines(ended, ranks=2)
            self.assertEqual({line[:2] for line in lines}, {(self.weights(), str(STEPS))}, ended)


class Spares(Elastic):
    def test_a_spare_worker_replaces_a_rank(self):
        env = self.environment("1:step-20")
        job = self.job(*self.options(1), "--spare-workers=1", "--nproc-per-node=4", "--no-python",
                       WORKER, env=env)
        eventually(lambda: re.search(r"spare worker \(pid \d+\) is ready", self.messages()),
                   "a spare worker is ready")
        self.let_ranks_fail()
        lines = self.lines(self.wait_for_exit(job, code=0))
        self.assertIn("rank 1 continues in spare worker", self.messages())
        self.assertEqual({line[:2] for line in lines}, {(self.weights(), str(STEPS))})


class Errors(Elastic):
    def test_an_error_that_a_loss_explains(self):
        for error in ("fail", "throw"):
            with self.subTest(error):
                self.survives_one(f"1:committed-21 2:{error}-20", (20, 21))

    def test_another_error_passes_and_muster_replaces_its_rank(self):
        ended = self.train("2:fail-20")
        self.assertIn("error invalid_state: the test wants an error\n", ended.err)
        self.assertIn("replacing rank 2: restart 1 of 1\n", ended.err)
        self.assertEqual({line[0] for line in self.lines(ended)}, {self.weights()})

    def test_a_second_call_is_refused(self):
        ended = self.run_job("--nproc-per-node=2", "--no-python", WORKER, code=1,
                             env=self.environment(AGAIN="1"))
        self.assertIn("error invalid_state: cannot run a second elastic function: muster can "
                      "replace ranks only in the first call of this process. Combine the "
                      "functions into one, and call it once\n", ended.err)


class WithoutMuster(Elastic):
    def test_one_process(self):
        done = self.run_alone()
        self.assertRegex(done, LINE)
        self.assertIn(f" commits {STEPS} epoch 0 resets\n", done)

    def test_ranks_that_another_launcher_started(self):
        port = free_port()
        with concurrent.futures.ThreadPoolExecutor() as pool:
            outputs = list(pool.map(lambda rank: self.run_alone(
                RANK=str(rank), WORLD_SIZE="4", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)),
                range(4)))
        self.assertEqual(set(outputs), {f"{self.weights()} commits {STEPS} epoch 0 resets\n"})

    def run_alone(self, **variables):
        env = {name: value for name, value in self.environment(**variables).items()
               if not name.startswith("MUSTER_")}
        return subprocess.run([WORKER], env=env, check=True, timeout=DEADLINE, text=True,
                              stdout=subprocess.PIPE).stdout


if __name__ == "__main__":
    unittest.main(verbosity=2)
