# SPDX-License-Identifier: Apache-2.0
"""What is different in a container: variables set by Kubernetes or an operator, being process 1 of
a PID namespace, no /dev/shm, and no scheduler commands."""

import os
import shutil
import signal
import subprocess
import unittest

from harness import (PUPPET, Job, children, environment_without, eventually, free_port, read,
                     state)
from nodes import NodesCase
from test_platforms import captured

AS_PROCESS_1 = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


def allowed(*command):
    return os.getuid() == 0 and shutil.which("unshare") and subprocess.run(
        [*command, "true"], capture_output=True, check=False).returncode == 0


class Variables(NodesCase):
    def start(self, environments, options=()):
        job = self.cluster("?")
        job.launcher_args = lambda *_, **__: [*options, os.environ["MUSTER_NODE_WORKER"]]
        for number, env in reversed(list(enumerate(environments))):
            job.start(number, env=env)
        return job

    def test_without_the_commands_of_slurm(self):
        """Uses only the environment, never scontrol, because images do not contain it."""
        tasks = [captured(f"slurm-step1-{task}") for task in range(2)]
        for task in tasks:
            task.update(PATH="/nowhere", SLURM_JOB_ID=str(free_port()),
                        SLURM_NODE_ALIASES="rack0n1:127.0.0.2:rack0n1,rack0n2:127.0.0.3:rack0n2")
        tasks[1]["SLURM_JOB_ID"] = tasks[0]["SLURM_JOB_ID"]
        job = self.start(tasks)
        self.assertEqual(job.round(4).nodes, ["n0", "n1"])
        job.finish()

    def test_the_link_to_a_service_is_no_port(self):
        """A Service named master gives every pod in its namespace the variable
        MASTER_PORT=tcp://…."""
        common = {"MASTER_ADDR": "localhost.localdomain", "MASTER_PORT": "tcp://10.3.0.7:23456",
                  "MASTER_SERVICE_PORT": "23456", "WORLD_SIZE": "2"}
        port = free_port()
        job = self.start([{**common, "RANK": str(rank)} for rank in range(2)],
                         [f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-backend=c10d"])
        one = job.round(2)
        self.assertEqual(one.nodes, ["n0", "n1"])
        self.assertTrue(all(env["MASTER_PORT"].isdigit() for env in one.env.values()))
        for node in job.nodes:
            self.assertIn("ignoring MASTER_PORT=tcp://10.3.0.7:23456", node.err())
        job.finish()

    def test_what_kubeflows_first_operator_wrote(self):
        """PET_STANDALONE= was meant as true, next to a rendezvous; PET_N_PROC_PER_NODE is a
        misspelled PET_NPROC_PER_NODE."""
        job = self.start(2 * [{
            "PET_RDZV_BACKEND": "c10d", "PET_RDZV_ENDPOINT": f"127.0.0.1:{free_port()}",
            "PET_NNODES": "2:2", "PET_RDZV_ID": "job", "PET_STANDALONE": "",
            "PET_N_PROC_PER_NODE": "2"}])
        one = job.round(4)
        self.assertEqual(sorted(one.nodes), ["n0", "n1"])
        self.assertEqual({env["LOCAL_WORLD_SIZE"] for env in one.env.values()}, {"2"})
        job.finish()


@unittest.skipUnless(allowed(*AS_PROCESS_1), "needs root and PID namespaces")
class ProcessOne(NodesCase):
    """The launcher is the container's command, and therefore the init process of its namespace."""

    def start(self, *args):
        job = Job([str(arg) for arg in args], prefix=AS_PROCESS_1)
        self.addCleanup(job.__exit__)
        return job

    def launcher(self, job):
        """As seen from outside: process 1 of the namespace, a child of unshare."""
        return eventually(lambda: [pid for pid in children(job.process.pid)
                                   if read(f"/proc/{pid}/comm").strip() == "muster"],
                          "the launcher runs")[0]

    def test_a_request_to_end_reaches_the_workers(self):
        for signo, name in ((signal.SIGTERM, "TERM"), (signal.SIGINT, "INT"),
                            (signal.SIGHUP, "HUP"), (signal.SIGQUIT, "QUIT")):
            ready = self.folder / f"ready-{name}"
            job = self.start("--nproc-per-node=1", "--no-python", PUPPET, "handle", name,
                             "touch", ready, "wait", "say", "goodbye", "exit", "0")
            eventually(ready.exists, "the worker handles the signal")
            os.kill(self.launcher(job), signo)
            ended = self.wait_for_exit(job, 128 + signo)
            self.assertIn("goodbye", ended.out)

    def test_the_code_is_that_of_the_worker(self):
        for words, code in ((["exit", "7"], 7), (["signal", "9"], 137), (["exit", "0"], 0)):
            ended = self.start("--nproc-per-node=1", "--no-python", PUPPET, *words).end()
            self.assertEqual(ended.code, code, ended)

    def test_orphans_are_reaped_while_the_job_runs(self):
        """An init that waits only for its own child lets zombies accumulate until fork fails."""
        leave = "(sh -c 'while ! [ -e go ]; do sleep 0.01; done; touch ended.$$' &)"
        script = f"cd $DIR; {10 * (leave + '; ')} exec $PUPPET touch ready wait"
        job = self.start(*self.by_rank(script))
        self.wait_for("ready")
        (self.folder / "go").touch()
        eventually(lambda: len(list(self.folder.glob("ended.*"))) == 10, "orphans run and end")
        top = self.launcher(job)

        def zombies():
            return [pid for pid in below(top) if state(pid) == "Z"]
        eventually(lambda: not zombies(), lambda: f"zombies are reaped: {zombies()}")
        os.kill(top, signal.SIGTERM)
        self.assertEqual(job.end().code, 143)


def below(pid):
    """All descendants."""
    found = children(pid)
    return found + [other for child in found for other in below(child)]


WITHOUT_SHM = ["unshare", "--mount", "sh", "-c",
               'mount -t tmpfs -o ro,size=4k none /dev/shm && exec "$@"', "sh"]
WITHOUT_ANY = ["unshare", "--mount", "sh", "-c",
               'mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3 && exec "$@"', "sh"]


@unittest.skipUnless(allowed(*WITHOUT_SHM), "needs root and mount namespaces")
class SharedMemory(NodesCase):
    def test_without_dev_shm(self):
        """Not needed by a failed worker's report or by anything else."""
        for prefix in (WITHOUT_SHM, WITHOUT_ANY):
            with self.subTest(prefix=prefix[4]):
                env = environment_without("TMPDIR")
                ended = self.run_job(*self.puppets(2, "getenv", "TORCHELASTIC_ERROR_FILE", "exit",
                                                   "3"), prefix=prefix, env=env, code=3)
                for line in ended.out.splitlines():
                    self.assertRegex(line, "^/tmp/.*/error.json$")
