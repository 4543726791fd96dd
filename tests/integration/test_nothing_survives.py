# SPDX-License-Identifier: Apache-2.0
"""However a job ends, none of its processes is alive a moment later."""

import os
import pathlib
import shutil
import signal

from harness import MUSTER, PUPPET, JobCase, children, eventually, find_pids, no_core_files, spawn

# A child in the group, one in a separate session, and a double-forked daemon; all ignore SIGTERM.
FAMILY = ["fork", "{", "ignore", "TERM", "wait", "}",
          "fork-setsid", "{", "ignore", "TERM", "wait", "}",
          "daemon", "{", "ignore", "TERM", "ignore", "HUP", "wait", "}"]
CGROUPS = pathlib.Path("/sys/fs/cgroup/memory")


class NothingSurvives(JobCase):
    def family_job(self, *last, **kwargs):
        """Two workers with these processes each; waits until all of them run."""
        ready = self.folder / "ready"
        ready.mkdir(exist_ok=True)
        ready.chmod(0o777)
        family = " ".join(f"'{word}'" for word in FAMILY)
        script = self.executable(f"#!/bin/sh\nexec {self.puppet} {family} "
                                 f"touch {ready}/$LOCAL_RANK {' '.join(last or ('wait',))}\n")
        job = self.job("--nproc-per-node", 2, "--shutdown-timeout", 0.3, script, **kwargs)
        eventually(lambda: len(os.listdir(ready)) == 2, "both workers run")
        # guard, agent, and four processes per worker
        eventually(lambda: len(job.pids()) == 10, lambda: f"all ten run: {job.pids()}")
        return job

    def setUp(self):
        super().setUp()
        self.folder.chmod(0o755)
        self.puppet = PUPPET

    def own_tmpdir(self):
        (self.folder / "tmp").mkdir()
        return {**os.environ, "TMPDIR": str(self.folder / "tmp")}

    def assert_no_folder_left(self):
        eventually(lambda: not os.listdir(self.folder / "tmp"), "the run folder is removed")

    def worker(self, job):
        return [pid for pid in children(job.agent())][0]

    def test_launcher_killed(self):
        job = self.family_job(env=self.own_tmpdir())
        self.kill_launcher(job)
        self.assert_no_folder_left()

    def test_agent_killed(self):
        job = self.family_job(env=self.own_tmpdir())
        os.kill(job.agent(), signal.SIGKILL)
        self.wait_for_exit(job, 137)
        self.assert_nothing_left(job)
        self.assert_no_folder_left()

    def test_launcher_told_to_stop(self):
        for signo in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            job = self.family_job()
            job.kill(signo)
            self.wait_for_exit(job, 128 + signo)
            self.assert_nothing_left(job)
            shutil.rmtree(self.folder / "ready")

    def test_rank_killed(self):
        job = self.family_job()
        os.kill(self.worker(job), signal.SIGKILL)
        ended = self.wait_for_exit(job, 137)
        self.assertIn("SIGKILL", ended.err)
        self.assert_nothing_left(job)

    def test_all_workers_succeed(self):
        job = self.family_job("wait-file", str(self.folder / "go"), "exit", "0")
        (self.folder / "go").touch()
        ended = self.wait_for_exit(job, 0)
        self.assertIn("killed 6 processes that workers left running: ", ended.err)
        self.assert_nothing_left(job)

    def test_unprivileged_user(self):
        if os.getuid() != 0:
            self.skipTest("is one already")
        self.puppet, launcher = (shutil.copy(program, self.folder) for program in (PUPPET, MUSTER))
        for copy in (self.puppet, launcher):
            os.chmod(copy, 0o755)
        job = self.family_job(executable=launcher, user=65534, group=65534, extra_groups=[])
        self.kill_launcher(job)

    def test_a_stranger_with_the_same_program_survives(self):
        stranger = spawn(self, [PUPPET, "wait"])
        job = self.family_job(env=self.own_tmpdir())
        self.kill_launcher(job)
        self.assert_no_folder_left()
        self.assertIsNone(stranger.poll(), "a process that was not ours was killed")

    def enter_group(self):
        """For a job that enters a cgroup limited to 256 MiB."""
        if not (CGROUPS / "memory.limit_in_bytes").exists() or not os.access(CGROUPS, os.W_OK):
            self.skipTest("needs root and a memory cgroup of version 1")
        group = CGROUPS / f"muster_test_{os.getpid()}"
        group.mkdir()
        self.addCleanup(lambda: eventually(lambda: self.remove(group), "the cgroup is removed"))
        (group / "memory.limit_in_bytes").write_text(str(256 << 20))

        def enter():
            no_core_files()
            (group / "cgroup.procs").write_text(str(os.getpid()))

        return enter

    def test_child_out_of_memory(self):
        job = self.job("--on-child-death=fail", "--no-python", PUPPET,
                       "fork-setsid", "{", "die-from-memory", "1024", "}", "ignore", "TERM", "wait",
                       preexec_fn=self.enter_group())
        ended = self.wait_for_exit(job, 137)
        self.assertRegex(ended.err, r"rank 0 lost its process \d+ \(muster-puppet\), killed by "
                                    r"SIGKILL: out of memory \(limit 256 MiB")
        self.assert_nothing_left(job)

    def test_rank_out_of_memory(self):
        job = self.job(*self.by_rank(
            f"exec $PUPPET {' '.join(FAMILY)} touch $DIR/up wait",
            "exec $PUPPET wait-file $DIR/up die-from-memory 1024",
            options=["--shutdown-timeout", "1"]), preexec_fn=self.enter_group())
        ended = self.wait_for_exit(job, 137)
        self.assertIn("rank 1 killed by SIGKILL", ended.err)
        self.assertIn("out of memory", ended.err)
        self.assertIn("256 MiB", ended.err)
        self.assert_nothing_left(job)

    def test_warm_rank_out_of_memory(self):
        script = self.python("import os\nif os.environ['RANK'] == '1':\n    bytearray(1 << 30)\n"
                             "import time\ntime.sleep(1000)\n")
        ended = self.run_job("--warm", "--nproc-per-node=2", "--shutdown-timeout=1", script,
                             preexec_fn=self.enter_group(), code=137)
        self.assertNotIn("cold", ended.err)
        self.assertRegex(ended.err, r"rank 1 killed by SIGKILL[^\n]*out of memory[^\n]*256 MiB")

    @staticmethod
    def remove(group):
        try:
            group.rmdir()
        except OSError:
            return False
        return True

    def test_helper_sees_processes_by_their_token(self):
        # Without this, the other tests would pass even if the helper detected nothing.
        job = self.job(*self.puppets(1, "wait"))
        eventually(lambda: len(find_pids(job.token)) == 3, "guard, agent and worker are seen")
