# SPDX-License-Identifier: Apache-2.0
"""muster.worker.preempted() under real Slurm, as docs/preemption.md advises: Slurm signals muster
and all workers, all ranks save at the same step, and the job is requeued."""

import json
import pathlib

from harness import eventually, read
from slurm import SlurmCase
from test_slurm_ends import REQUEUED

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "lib/python"
REQUEUE = 75

# Computes until it is preempted. All ranks of a node write to the same file.
TRAINER = f"""
import json, os, random, signal, sys, time
sys.path.insert(0, {str(PACKAGE)!r})
from muster import worker
out = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
def tell(what, step):
    line = json.dumps({{"what": what, "rank": os.environ["RANK"], "step": step,
                       "run": os.environ["TORCHELASTIC_RUN_ID"]}}) + "\\n"
    os.write(out, line.encode())
if "ignore" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
step = 0
while not worker.preempted():
    step += 1
    time.sleep(0.01 * random.random())
    worker.progress(step)
    if step == 3:
        tell("up", step)
with worker.saving(step):
    tell("saved", step)
sys.exit(worker.REQUEUE)
"""


class Saving(SlurmCase):
    def setUp(self):
        super().setUp()
        self.told = self.folder / "told"
        self.trainer = self.python(TRAINER)

    def events(self, what, run=""):
        lines = [json.loads(line) for line in read(self.told).splitlines()]
        return {line["rank"]: line["step"] for line in lines
                if line["what"] == what and line["run"].endswith(run)}

    def begin(self, start, *words, options, program=()):
        job, node = start(*words, program=[self.trainer, self.told, *program],
                          options=["--shutdown-timeout=20", *options])
        eventually(lambda: len(self.events("up")) == 4, job.describe)
        return job, node

    def assert_all_saved(self, job, run=""):
        eventually(lambda: len(self.events("saved", run)) == 4, job.describe)
        self.assertEqual(len(set(self.events("saved", run).values())), 1)

    def test_the_signal_of_the_user(self):
        job, node = self.begin(self.srun, "-N2", "--gres=gpu:2", options=["--preempt-signal=USR1"])
        self.slurm.ask("scancel", "--signal=USR1", self.number())
        self.assert_all_saved(job)
        job.ends(node, code=REQUEUE)
        step, = set(self.events("saved").values())
        self.assertIn(f"saved step {step}\n", node.err())

    def test_a_job_that_is_preempted_in_its_grace_time(self):
        """slurm.conf has preempt_send_user_signal, so Slurm sends the job's own signal."""
        job, node = self.begin(self.sbatch, 'srun "$@"', "-N4", "--partition=graced", "--exclusive",
                               "--requeue", "--signal=USR1@300",
                               options=["--preempt-signal=USR1", "--on-preempt=requeue"])
        number = self.number()
        script = self.script("exec sleep 1000", "urgent.sh")
        self.slurm.ask("sbatch", "--partition=urgent", "--exclusive", "-N1",
                       f"--output={self.folder}/urgent.out", script)
        self.assert_all_saved(job)
        eventually(lambda: f"{number}-PENDING" in self.slurm.jobs("%A-%T"), "the job waits again")
        self.slurm.cancel_all()
        eventually(lambda: node.process.poll() is not None, "sbatch ends")

    def test_a_cancelled_job_whose_workers_ignore_sigterm(self):
        """Slurm would requeue a job even though it is cancelled."""
        job, node = self.begin(self.sbatch, 'srun "$@"', "-N2", "--gres=gpu:2", "--requeue",
                               options=["--on-preempt=requeue"], program=["ignore"])
        self.slurm.ask("scancel", self.number())
        self.assert_all_saved(job)
        eventually(lambda: node.process.poll() is not None, "sbatch ends")
        self.assertEqual(self.slurm.jobs("%T"), [])

    def test_the_job_is_requeued_and_runs_again(self):
        job, node = self.begin(self.sbatch, 'srun "$@"', "-N2", "--gres=gpu:2", "--requeue",
                               options=["--preempt-signal=USR1", "--on-preempt=requeue"])
        number = self.number()
        self.slurm.ask("scancel", "--signal=USR1", number)
        self.assert_all_saved(job, run=".0")
        eventually(lambda: self.slurm.jobs("%T") == ["PENDING"], "the job waits again")
        self.slurm.ask("scontrol", "update", f"jobid={number}", REQUEUED)
        eventually(lambda: len(self.events("up", run="-r1")) == 4, job.describe)
        self.slurm.ask("scancel", "--signal=USR1", number)
        self.assert_all_saved(job, run="-r1")
        eventually(lambda: self.slurm.jobs("%T") == ["PENDING"], "the job waits again")
        self.slurm.ask("scancel", number)
        eventually(lambda: node.process.poll() is not None, "sbatch ends")
