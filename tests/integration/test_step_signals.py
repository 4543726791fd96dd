# SPDX-License-Identifier: Apache-2.0
"""All processes of a Slurm step receive its signals: launcher, agent and workers, in any order."""

import collections
import os
import random
import signal
import time

from harness import DEADLINE, PUPPET, children, eventually, read, state
from nodes import NodesCase
from step import Stepd
from test_platforms import captured

SPREAD = 1.0  # s: maximum time between the signal's arrival at a worker and at its launcher

# Records each signal that it receives. SIGUSR2, which the launcher forwards, arrives after
# everything that the launcher has sent before; after a SIGTERM or a SIGINT it ends the worker.
LISTENER = """
import os, pathlib, signal, sys
heard = {signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT}
signal.pthread_sigmask(signal.SIG_BLOCK, heard)
log = os.open(f"{sys.argv[1]}/got{os.environ['RANK']}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
pathlib.Path(f"{sys.argv[1]}/up{os.environ['RANK']}").touch()
asked = False
while True:
    signo = signal.sigwaitinfo(heard).si_signo
    os.write(log, signal.Signals(signo).name.encode() + b"\\n")
    if asked and signo == signal.SIGUSR2:
        sys.exit()
    asked = asked or signo in (signal.SIGTERM, signal.SIGINT)
"""


def one_node(**changed):
    return {**captured("slurm-step1-0"), "SLURM_STEP_NUM_NODES": "1",
            "SLURM_STEP_NODELIST": "rack0n1", "SLURM_STEP_TASKS_PER_NODE": "1", **changed}


class StepSignals(NodesCase):
    def setUp(self):
        super().setUp()
        self.stepd = Stepd(self)

    def listeners(self, *options, env=None, count=2):
        """A single-node job whose workers are up."""
        script = self.python(LISTENER)
        job = self.job("--nproc-per-node", count, *options, script, self.folder,
                       env={**os.environ, **(one_node() if env is None else env)})
        self.wait_for_grown(count)
        return job

    def wait_for_grown(self, count=2):
        """Waits until the workers are up, and old enough that a scheduler cannot have missed
        one."""
        self.wait_for(*(f"up{rank}" for rank in range(count)))
        grown = time.monotonic() + SPREAD
        eventually(lambda: time.monotonic() >= grown, "time passes")

    def got(self, rank):
        return collections.Counter(read(self.folder / f"got{rank}").split())

    def wait_until_got(self, name, times=1, count=2):
        for rank in range(count):
            eventually(lambda rank=rank: self.got(rank)[name] >= times,
                       lambda rank=rank: f"{times} {name}, not {self.got(rank)}")

    def processes(self, job, workers_first):
        """Launcher, agent, workers; or in reverse order."""
        agent = job.agent()
        all_of_them = [job.process.pid, agent, *children(agent)]
        return all_of_them[::-1] if workers_first else all_of_them

    def test_each_worker_gets_a_signal_once_whoever_is_first(self):
        for workers_first in (False, True):
            with self.subTest(workers_first=workers_first):
                job = self.listeners("--max-restarts=3")
                step = self.processes(job, workers_first)
                # SIGCONT has the highest number, so a listener takes it last. Two that are pending
                # count as one.
                self.stepd.signal(signal.SIGUSR1, step)
                self.wait_until_got("SIGUSR1")
                self.wait_until_got("SIGCONT")
                job.kill(signal.SIGUSR2)  # from us, to the launcher alone, so it is forwarded
                self.wait_until_got("SIGUSR2")
                self.stepd.signal(signal.SIGTERM, step)
                self.wait_until_got("SIGTERM")
                self.wait_until_got("SIGCONT", 2)
                job.kill(signal.SIGUSR2)
                ended = self.wait_for_exit(job, 128 + signal.SIGTERM)
                self.assertIn("SIGTERM from the scheduler: the job will not restart, and the "
                              "workers have 30s to exit\n", ended.err)
                for rank in range(2):
                    self.assertEqual(dict(self.got(rank)), {"SIGCONT": 2, "SIGUSR1": 1,
                                                            "SIGUSR2": 2, "SIGTERM": 1}, ended)
                    (self.folder / f"got{rank}").unlink()
                    (self.folder / f"up{rank}").unlink()

    def die_before_the_launcher(self, *options):
        """Returns the result, and how long after its workers the launcher received the fatal
        signal."""
        job = self.job("--nproc-per-node=2", *options, "--no-python", PUPPET,
                       "touch", self.folder / "up", "wait", env={**os.environ, **one_node()})
        self.wait_for("up")
        agent = job.agent()
        workers = eventually(lambda: len(children(agent)) == 2 and children(agent), "two workers")
        began = time.monotonic()
        self.stepd.signal(signal.SIGTERM, workers)
        eventually(lambda: all(state(pid) in ("", "Z") for pid in workers), "the workers are dead")
        self.stepd.signal(signal.SIGTERM, [agent, job.process.pid])
        gap = time.monotonic() - began
        (self.folder / "up").unlink()
        return job.end(), gap

    def test_workers_that_die_of_it_before_the_launcher_have_not_failed(self):
        give_up = time.monotonic() + DEADLINE
        ended, gap = self.die_before_the_launcher("--max-restarts=3", "--log-level=info")
        while gap > SPREAD / 2 and time.monotonic() < give_up:  # a busy machine
            ended, gap = self.die_before_the_launcher("--max-restarts=3", "--log-level=info")
        self.assertEqual(ended.code, 128 + signal.SIGTERM, ended)
        self.assertNotIn("restart", ended.err.replace("will not restart", ""))
        self.assertEqual(ended.err.count("store on"), 1, ended)  # one attempt
        self.assertIn("interrupted by SIGTERM", ended.err)

    def test_a_worker_that_somebody_else_has_killed_has_failed(self):
        job = self.job(*self.by_rank("test $TORCHELASTIC_RESTART_COUNT = 1 && exit 0; "
                                     "exec $PUPPET touch $DIR/up wait",
                                     options=["--max-restarts=1"]),
                       env={**os.environ, **one_node()})
        self.wait_for("up")
        worker, = children(job.agent())
        os.kill(worker, signal.SIGTERM)
        ended = self.wait_for_exit(job, 0)
        self.assertIn("killed by SIGTERM", ended.err)

    def test_a_second_term_takes_nothing_away_and_a_second_interrupt_does(self):
        job = self.listeners()
        step = self.processes(job, False)
        for times in (1, 2, 3):
            self.stepd.signal(signal.SIGTERM, step)
            self.wait_until_got("SIGTERM", times)
        job.kill(signal.SIGUSR2)
        self.wait_for_exit(job, 128 + signal.SIGTERM)
        self.assertEqual([self.got(rank)["SIGUSR2"] for rank in range(2)], [1, 1], "ended by it")

    def test_a_second_interrupt_ends_it(self):
        job = self.listeners()
        self.stepd.signal(signal.SIGINT, self.processes(job, False))
        self.wait_until_got("SIGINT")
        # Signals within 250 ms of the first one count as the same request.
        eventually(lambda: job.process.poll() is not None or job.kill(signal.SIGINT), "it ends")
        self.assertEqual(job.end().code, 128 + signal.SIGINT)
        self.assertEqual([self.got(rank)["SIGUSR2"] for rank in range(2)], [0, 0])

    def test_the_workers_have_until_the_job_ends(self):
        job = self.listeners(env=one_node(SLURM_JOB_END_TIME=str(int(time.time()) + 7200)))
        self.stepd.signal(signal.SIGTERM, self.processes(job, False))
        self.wait_until_got("SIGTERM")
        job.kill(signal.SIGUSR2)
        ended = job.end()
        self.assertRegex(ended.err, r"the workers have 7[12]\d\ds to exit, until shortly after "
                                    r"SLURM_JOB_END_TIME")

    def test_the_zygote_outlives_what_is_meant_for_workers(self):
        job = self.listeners("--warm=json")
        step = self.processes(job, False)
        zygote, = (pid for pid in step if "muster-zygote" in read(f"/proc/{pid}/cmdline"))
        for signo in (signal.SIGUSR1, signal.SIGHUP):
            self.stepd.signal(signo, [zygote])
        self.stepd.signal(signal.SIGTERM, step)
        self.wait_until_got("SIGTERM")
        self.assertNotIn(state(zygote), ("", "Z", "X"))
        job.kill(signal.SIGUSR2)
        self.assertEqual(job.end().code, 128 + signal.SIGTERM)

    def test_group_and_leader_by_hand(self):
        job = self.listeners("--signal-delivery=group", env={})
        job.kill(signal.SIGUSR1)
        job.kill(signal.SIGTERM)
        self.stepd.signal(signal.SIGTERM, children(job.agent()))  # not otherwise notified
        self.stepd.signal(signal.SIGUSR2, children(job.agent()))
        self.assertEqual(job.end().code, 128 + signal.SIGTERM)
        self.assertEqual([(self.got(rank)["SIGUSR1"], self.got(rank)["SIGTERM"])
                          for rank in range(2)], [(0, 1), (0, 1)])
        for rank in range(2):
            (self.folder / f"up{rank}").unlink()
        job = self.listeners("--signal-delivery=leader")
        self.stepd.signal(signal.SIGUSR1, [job.process.pid])
        self.wait_until_got("SIGUSR1")
        job.kill(signal.SIGKILL)
        job.end()

    def two_nodes(self):
        """The agents of a two-node step, whose workers are up."""
        aliases = "rack0n1:127.0.0.2:rack0n1,rack0n2:127.0.0.3:rack0n2"
        job = self.cluster("?")
        script = self.python(LISTENER)
        job.launcher_args = lambda *_, **__: ["--nproc-per-node=1", "--max-restarts=3", script,
                                              str(self.folder)]
        number = str(random.randint(10 ** 6, 10 ** 9))
        nodes = [job.start(index, env={**captured(f"slurm-step1-{index}"), "SLURM_JOB_ID": number,
                                       "SLURM_NODE_ALIASES": aliases}) for index in (0, 1)]
        self.wait_for_grown()
        return job, nodes

    def cancel_two_nodes(self):
        """Signals one machine after the other, like their daemons. Returns the time between
        them."""
        job, nodes = self.two_nodes()
        began = time.monotonic()
        for node in nodes:
            self.stepd.signal(signal.SIGTERM, self.processes(node, True))
            gap = time.monotonic() - began
            node.wait_for_text("from the scheduler")
        self.wait_until_got("SIGTERM")
        for node in nodes:
            node.kill(signal.SIGUSR2)
        ended = job.ends(*nodes, code=128 + signal.SIGTERM)
        got = [self.got(rank)["SIGTERM"] for rank in range(2)]
        for rank in range(2):
            (self.folder / f"got{rank}").unlink()
            (self.folder / f"up{rank}").unlink()
        return ended, got, gap

    def test_a_step_of_two_nodes_is_cancelled_without_a_restart(self):
        give_up = time.monotonic() + DEADLINE
        ended, got, gap = self.cancel_two_nodes()
        while gap > SPREAD / 2 and time.monotonic() < give_up:  # a busy machine
            ended, got, gap = self.cancel_two_nodes()
        for each in ended:
            self.assertNotIn("restart", each.err.replace("will not restart", ""))
            self.assertIn("interrupted by SIGTERM", each.err)
        self.assertEqual(got, [1, 1], "nobody has sent another one")
