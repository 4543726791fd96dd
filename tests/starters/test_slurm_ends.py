# SPDX-License-Identifier: Apache-2.0
"""How jobs end under real Slurm, or do not: hosts that die, requeued jobs, and signals, which Slurm
itself sends to every process of a step, including workers."""

import json
import time

from harness import eventually, read
from slurm import SlurmCase

# Otherwise Slurm would wait for two minutes: credentials have a resolution of seconds, and the
# revoked ones from the last start must be older than the new ones.
REQUEUED = "StartTime=now+3"

# Records the signals that it receives, and exits some time after the first SIGTERM.
LISTENER = """
import json, os, signal, sys, time
def tell(what):
    line = json.dumps({"what": what, "rank": os.environ["RANK"], "pid": os.getpid(),
                       "run": os.environ["TORCHELASTIC_RUN_ID"]}) + "\\n"
    os.write(out, line.encode())
out = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
for name in ("SIGTERM", "SIGUSR1", "SIGINT"):
    signal.signal(getattr(signal, name), lambda signo, _: tell(signal.Signals(signo).name))
tell("start")
while not os.path.exists(sys.argv[1] + ".end"):
    time.sleep(0.01)
tell("end")
"""


class Ends(SlurmCase):
    def test_a_host_dies_and_the_others_go_on(self):
        job, node = self.srun("-N4", "--no-kill", options=["--nnodes=2:4"])
        job.round(4)
        victim = self.slurm.nodes[2]
        self.slurm.power_off(victim)
        self.addCleanup(self.slurm.power_on, victim)
        one = job.round(3)
        self.assertEqual(one.nodes, ["pod-a01", "pod-a02", "pod-b02"])
        self.assertEqual(one.restarts, 0)
        job.finish()
        self.assertIn("pod-b01", node.err())

    def test_the_first_host_dies_and_the_others_go_on(self):
        job, _ = self.srun("-N3", "--no-kill", options=["--nnodes=2:3"])
        self.assertEqual(job.round(3).nodes[0], "pod-a01")
        victim = self.slurm.nodes[0]
        self.slurm.power_off(victim)
        self.addCleanup(self.slurm.power_on, victim)
        self.assertEqual(sorted(job.round(2).nodes), ["pod-a02", "pod-b01"])
        job.finish()

    def test_a_requeued_job_is_another_one(self):
        job, _ = self.sbatch('srun "$@"', "-N2", "--requeue")
        number = self.number()
        self.assertEqual(self.run_ids(job.round(2)), {f"slurm-{number}.0"})
        self.slurm.ask("scontrol", "requeue", number)
        eventually(lambda: self.slurm.jobs("%T") == ["PENDING"], "the job waits again")
        self.slurm.ask("scontrol", "update", f"jobid={number}", REQUEUED)
        self.assertEqual(self.run_ids(job.round(2)), {f"slurm-{number}.0-r1"})
        job.finish()

    def test_a_cancelled_job_does_not_start_again(self):
        for command in ("srun", "sbatch"):
            options = {"options": ["--max-restarts=3"]}
            job, node = (self.srun("-N2", "--gres=gpu:2", **options) if command == "srun" else
                         self.sbatch('srun "$@"', "-N2", "--gres=gpu:2", **options))
            job.round(4)
            self.slurm.ask("scancel", self.number())
            eventually(lambda node=node: node.process.poll() is not None, "the step ends")
            self.assertNotEqual(node.process.returncode, 0)
            starts = [event for event in job.story.events() if event["what"] == "start"]
            self.assertEqual(len(starts), 4, job.describe())


class Signals(SlurmCase):
    """Workers that record their signals."""

    def setUp(self):
        super().setUp()
        self.heard = self.folder / "heard"
        self.listener = self.python(LISTENER)

    def events(self, what):
        lines = [json.loads(line) for line in read(self.heard).splitlines()]
        return sorted(line["rank"] for line in lines if line["what"] == what)

    def listen(self, start, *options, world, **how):
        job, node = start(*options, program=[self.listener, self.heard], **how)
        eventually(lambda: self.events("start") == [str(rank) for rank in range(world)],
                   job.describe)
        return job, node

    def end(self):
        (self.folder / "heard.end").touch()

    def test_a_signal_of_the_user_reaches_every_worker_once(self):
        job, node = self.listen(self.srun, "-N2", "--gres=gpu:2", world=4)
        self.slurm.ask("scancel", "--signal=USR1", self.number())
        eventually(lambda: len(self.events("SIGUSR1")) >= 4, job.describe)
        self.end()
        job.ends(node)
        self.assertEqual(self.events("SIGUSR1"), ["0", "1", "2", "3"])
        self.assertEqual(self.events("end"), ["0", "1", "2", "3"])

    def test_a_cancelled_worker_hears_of_it_once_and_may_finish(self):
        job, node = self.listen(self.srun, "-N2", "--gres=gpu:2", world=4,
                                options=["--max-restarts=3"])
        # Younger workers also get the signal from their launcher, because Slurm may have listed the
        # processes before they existed.
        born = time.monotonic()
        eventually(lambda: time.monotonic() > born + 1, "the workers are a second old")
        self.slurm.ask("scancel", self.number())
        eventually(lambda: len(self.events("SIGTERM")) >= 4, job.describe)
        self.end()
        eventually(lambda: node.process.poll() is not None, "the step ends")
        self.assertNotEqual(node.process.returncode, 0)
        for what in ("start", "SIGTERM", "end"):
            self.assertEqual(self.events(what), ["0", "1", "2", "3"], what)
