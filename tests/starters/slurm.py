# SPDX-License-Identifier: Apache-2.0
"""A real Slurm on hosts that are namespaces on this machine (../hosts/hosts.py): a login host with
the controller, and four nodes with two GPUs each, which are null devices. Its daemons are ordinary
children of the test; own_pids.py ensures that nothing survives the test, however it ends. Needs
root and Debian's packages slurmctld, slurmd, slurm-client and munge."""

import contextlib
import os
import pathlib
import re
import shlex
import shutil
import signal
import stat
import subprocess
import tempfile
import unittest

import hosts
from harness import MUSTER, eventually, read
from nodes import WORKER, NodesCase

LOGIN, NODES = "login", ("pod-a01", "pod-a02", "pod-b01", "pod-b02")
PROGRAMS = ("slurmctld", "slurmd", "srun", "sbatch", "salloc", "scancel", "scontrol", "munged")
NULL_MAJOR, NULL_MINOR = 1, 3
IDLE_WITHIN = 60  # s, after the command that started a job has exited
COMMAND_WITHIN = 30  # s, for Slurm's own commands that only query or notify
CONF = """
ClusterName=probe
SlurmctldHost={login}({address})
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobCompType=jobcomp/none
AccountingStorageType=accounting_storage/none
SlurmdParameters=config_overrides
SlurmctldParameters=preempt_send_user_signal
SchedulerParameters=sched_interval=1,sched_min_interval=0,batch_sched_delay=0
ReturnToService=2
KillWait=30
GresTypes=gpu
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdSpoolDir={folder}/spool.%n
StateSaveLocation={folder}/state
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
NodeName={nodes} CPUs=2 RealMemory=100 Gres=gpu:2 State=UNKNOWN
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=graced Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=60
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10
"""


def missing():
    """Why these tests cannot run here; empty if they can."""
    lacking = [program for program in PROGRAMS if not shutil.which(program)]
    if lacking:
        return f"needs Slurm's {', '.join(lacking)}: scripts/install_deps test"
    return hosts.missing()


class Slurm:
    def __init__(self, folder):
        self.folder = folder
        self.net = hosts.Net(folder, (LOGIN, *NODES))
        self.login, *self.nodes = self.net.hosts
        self.daemons = {}
        self.conf = folder / "slurm.conf"
        self.write_conf()
        self.env = {**os.environ, "SLURM_CONF": str(self.conf)}
        self.start_munge()
        self.start(self.login, "slurmctld", "-D")
        for node in self.nodes:
            self.boot(node)
        eventually(self.is_up, self.logs)

    def write_conf(self):
        self.conf.write_text(CONF.format(folder=self.folder, login=LOGIN, nodes=",".join(NODES),
                                         address=self.login.address))
        for number in range(2):  # never opened; Slurm only checks their type
            os.mknod(self.folder / f"gpu{number}", stat.S_IFCHR, os.makedev(NULL_MAJOR, NULL_MINOR))
        (self.folder / "gres.conf").write_text(f"Name=gpu File={self.folder}/gpu[0-1]\n")
        (self.folder / "state").mkdir()

    def start_munge(self):
        """One daemon for all hosts, which share the file system."""
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        self.folder.chmod(0o755)
        files = [f"--{what}={self.folder}/munge.{what.split('-')[0]}"
                 for what in ("socket", "key-file", "pid-file", "log-file", "seed-file")]
        self.start(self.login, "munged", "--foreground", "--force", *files)
        eventually((self.folder / "munge.socket").exists, self.logs)

    def start(self, host, *command):
        with open(self.folder / "daemons.log", "ab") as log:
            self.daemons[host.name, command[0]] = subprocess.Popen(
                [*host.prefix, *command], env=self.env, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log)

    def boot(self, node):
        (self.folder / f"spool.{node.name}").mkdir(exist_ok=True)
        self.start(node, "slurmd", "-D", "-N", node.name)

    def is_up(self):
        states = self.ask("sinfo", "-h", "-N", "-p", "main", "-o", "%t", check=False)
        return states.split() == ["idle"] * len(NODES)

    def logs(self):
        return "Slurm is up\n" + "\n".join(f"--- {path.name}\n{read(path)[-3000:]}"
                                           for path in sorted(self.folder.glob("*.log")))

    # -- what users type on the login host ----------------------------------------------------

    def words(self, program, *options):
        return [*self.login.prefix, program, *map(str, options)]

    def ask(self, *command, check=True):
        done = subprocess.run(self.words(*command), env=self.env, text=True, check=False,
                              capture_output=True, timeout=COMMAND_WITHIN)
        assert not check or done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def jobs(self, form="%i"):
        return self.ask("squeue", "-h", "-o", form).split()

    def idle(self):
        """Waits until no job is left and all nodes are free. On a timeout cancels all and fails."""
        try:
            eventually(lambda: not self.jobs() and self.is_up(), "Slurm is idle", IDLE_WITHIN)
        except AssertionError as error:
            seen = self.ask("squeue") + self.ask("sinfo", "-N", "-l") + self.logs()
            self.cancel_all()
            eventually(self.is_up, self.logs)
            raise AssertionError(f"{error}\n{seen}") from None

    # -- a node that dies ---------------------------------------------------------------------

    def pids_on(self, node):
        """All processes on this host except the one that holds it."""
        its = os.readlink(f"/proc/{node.holder.pid}/ns/net")
        for entry in os.listdir("/proc"):
            with contextlib.suppress(OSError):
                if entry.isdigit() and os.readlink(f"/proc/{entry}/ns/net") == its:
                    if int(entry) != node.holder.pid:
                        yield int(entry)

    def power_off(self, node):
        """Simulates a dead host as far as possible with a live kernel. Notifies the controller,
        which would otherwise wait for SlurmdTimeout."""
        for pid in self.pids_on(node):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.daemons.pop((node.name, "slurmd")).wait()
        self.ask("scontrol", "update", f"nodename={node.name}", "state=down", "reason=power")

    def power_on(self, node):
        self.boot(node)
        self.ask("scontrol", "update", f"nodename={node.name}", "state=resume", check=False)

    def cancel_all(self):
        for job in self.jobs():
            self.ask("scancel", job, check=False)

    def close(self):
        self.cancel_all()
        for daemon in reversed(self.daemons.values()):
            daemon.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                daemon.wait(10)
            daemon.kill()
            daemon.wait()
        self.net.close()


@unittest.skipIf(missing(), missing())
class SlurmCase(NodesCase):
    """Jobs whose launchers are all started by a single Slurm command, which is the only command
    that the test starts: Cluster's node 1. Workers are labelled with the names of their hosts."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = tempfile.TemporaryDirectory(prefix="muster_slurm_")
        cls.addClassCleanup(folder.cleanup)
        cls.slurm = Slurm(pathlib.Path(folder.name))
        cls.addClassCleanup(cls.slurm.close)

    def setUp(self):
        super().setUp()
        self.worker = self.executable(
            f"#!/bin/sh\nNODE_LABEL=$(uname -n) exec '{WORKER}'\n", "worker.sh")
        # The last cleanup, after everything that was started has exited.
        self._cleanups.insert(1, (self.assert_node_is_clean, (), {}))

    def script(self, text, name="batch.sh"):
        """A batch script; "$@" is muster with its arguments."""
        return self.executable(f"#!/bin/sh\n{text}\n", name)

    def submit(self, *command, options=(), program=None, env=None):
        """COMMAND muster OPTIONS PROGRAM on the login host: a job, and its only local process."""
        job = self.cluster("?")
        words = [*options, *(program or [self.worker])]
        job.launcher_args = lambda *_, **__: [str(word) for word in words]
        variables = {"SLURM_CONF": str(self.slurm.conf), **(env or {})}
        node = job.start(1, label="login", env=variables,
                         popen={"prefix": self.slurm.words(*command)})
        return job, node

    def srun(self, *options, **how):
        return self.submit("srun", *options, **how)

    def sbatch(self, text, *options, **how):
        return self.submit("sbatch", "--wait", f"--output={self.folder}/batch.out", *options,
                           self.script(text), **how)

    def salloc(self, *options, text='"$@"', **how):
        return self.submit("salloc", *options, self.script(text), **how)

    def number(self):
        """The number of the only job."""
        return eventually(self.slurm.jobs, "Slurm has a job")[0]

    def places(self, one):
        """(host, LOCAL_RANK, LOCAL_WORLD_SIZE) of each rank."""
        return [(worker["node"], worker["env"]["LOCAL_RANK"], worker["env"]["LOCAL_WORLD_SIZE"])
                for worker in one.workers.values()]

    def run_ids(self, one):
        return {env["TORCHELASTIC_RUN_ID"] for env in one.env.values()}

    def assert_node_is_clean(self):
        """Slurm has no job, and only its daemons run on the nodes."""
        self.slurm.idle()
        for node in self.slurm.nodes:
            def strangers(node=node):
                names = {pid: read(f"/proc/{pid}/comm").strip() for pid in self.slurm.pids_on(node)}
                return {pid: name for pid, name in names.items() if name not in ("slurmd", "")}
            eventually(lambda: not strangers(), lambda: f"{node.name} is clean: {strangers()}")


def line_to_type(text):
    """The command that muster tells the user to type instead."""
    found = re.search(r"; run: (.+?)   \(or ", text)
    assert found and MUSTER in found[1], text
    return shlex.split(found[1])
