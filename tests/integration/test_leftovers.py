# SPDX-License-Identifier: Apache-2.0
"""Processes and files that a run leaves behind, and file limits."""

import os
import pathlib
import re
import resource
import signal
import time
import uuid

from harness import PUPPET, JobCase, environment_without, eventually, limited

IN_MEMORY = pathlib.Path("/dev/shm")
LONG_AGO = 120  # s


SHARED_MEMORY = """import os, signal, sys, time
from multiprocessing import shared_memory
memory = shared_memory.SharedMemory(create=True, size=4096)
for signo in (signal.SIGTERM, signal.SIGINT):
    signal.signal(signo, signal.SIG_IGN)
path = f"{sys.argv[1]}/{os.environ['RANK']}"
with open(path + ".new", "w") as file:
    file.write(memory.name)
os.rename(path + ".new", path)
while not os.path.exists(f"{sys.argv[1]}/{sys.argv[2]}"):
    time.sleep(0.01)
os._exit(0 if sys.argv[2] == "exit" else 3 if os.environ["RANK"] == "1" else time.sleep(1000))
"""


class Processes(JobCase):
    """They exit on their own, or receive SIGTERM and a grace period, then SIGKILL, and are
    named."""

    def daemon(self, *words, last, options=()):
        return self.job(*self.puppets(1, "fork-setsid", "{", *words, "}", *last, options=options))

    @staticmethod
    def said(job):
        """The next complete line from the launcher."""
        return os.read(job.process.stderr.fileno(), 4096).decode()

    def test_what_succeeded_workers_leave_may_finish(self):
        go, done = self.folder / "go", self.folder / "done"
        job = self.daemon("wait-file", go, "touch", done, last=("exit", "0"))
        self.assertIn("all workers have exited; waiting up to ", self.said(job))
        go.touch()
        ended = job.end()
        self.assertEqual((ended.code, done.exists()), (0, True), ended)
        self.assertNotIn("SIGTERM", ended.err)

    def test_the_first_signal_ends_that_wait(self):
        told, up = self.folder / "told", self.folder / "up"
        job = self.daemon("handle", "TERM", "touch", up, "wait", "touch", told,
                          last=("wait-file", up, "exit", "0"))
        self.assertRegex(self.said(job), r"1 process that a worker left running: \d+ "
                                          r"\(muster-puppet, rank 0\)\. Ctrl-C stops it")
        job.kill(signal.SIGINT)
        ended = job.end()
        self.assertEqual((ended.code, told.exists()), (128 + signal.SIGINT, True), ended)

    def test_after_a_failure_they_get_sigterm_and_the_grace(self):
        told, up = self.folder / "told", self.folder / "up"
        ended = self.daemon("handle", "TERM", "touch", up, "wait", "touch", told,
                            last=("wait-file", up, "exit", "3")).end()
        self.assertEqual((ended.code, told.exists()), (3, True), ended)
        self.assertRegex(ended.err, r"sent SIGTERM to 1 process that a worker left running: \d+ "
                                    r"\(muster-puppet, rank 0\)")

    def test_a_filter_shows_the_last_lines_of_a_worker_that_failed(self):
        filtered = self.executable("#!/bin/bash\nexec 2> >(sed 's/^/filtered: /' >&2)\n"
                                   "exec sh -c 'echo last words >&2; exit 3'\n", "filtered")
        for workers in (1, 2, 4):
            ended = self.run_job("--nproc-per-node", workers, filtered, code=3)
            self.assertIn("filtered: last words", ended.err)

    def test_the_next_attempt_waits_for_their_end(self):
        saved = self.folder / "saved"
        job = self.job("--max-restarts=1", "--no-python", "sh", "-c", f"""
            test -n "$TORCHELASTIC_RESTART_COUNT" || exit 9
            if [ $TORCHELASTIC_RESTART_COUNT = 1 ]; then test -e {saved}; exit; fi
            setsid {PUPPET} handle TERM touch {self.folder}/up wait touch {saved} &
            {PUPPET} wait-file {self.folder}/up; exit 3""")
        self.assertEqual(job.end().code, 0)

    def test_what_is_deaf_is_killed_and_named(self):
        up = self.folder / "up"
        job = self.daemon("ignore", "TERM", "touch", up, "wait",
                          last=("wait-file", up, "exit", "0"), options=["--shutdown-timeout=0.2"])
        ended = self.wait_for_exit(job, 0)
        self.assertRegex(ended.err, r"killed 1 process that a worker left running: \d+ "
                                    r"\(muster-puppet, rank 0\)\n")
        self.assert_nothing_left(job)

    def test_what_ignores_sigterm_delays_nothing_by_the_grace(self):
        for fork in ("fork", "fork-setsid"):
            deaf = ("ignore", "TERM", fork, "{", "wait", "}")
            ended = self.run_job(*self.puppets(1, *deaf, "exit", "3", options=[
                "--max-restarts=1", "--shutdown-timeout=3600"]), code=3)
            self.assertEqual(len(re.findall("killed 1 process that a worker left", ended.err)), 2)
            self.assertNotIn("sent SIGTERM", ended.err)
        job = self.job(*self.puppets(1, *deaf, "touch", self.folder / "up", "wait",
                                     options=["--shutdown-timeout=3600"]))
        self.wait_for("up")
        os.kill(job.agent(), signal.SIGKILL)
        self.assertIn("killed 1 process that a worker left", job.end().err)
        self.assert_nothing_left(job)

    def test_helpers_without_sigterm_handlers_see_the_end_of_their_pipe(self):
        pipe, done = self.folder / "pipe", self.folder / "done"
        ended = self.run_job("--shutdown-timeout=0", "--no-python", "sh", "-c", f"""
            mkfifo {pipe}; setsid sh -c 'cat < {pipe}; touch {done}' & exec 3> {pipe}; exit 3""")
        self.assertEqual((ended.code, done.exists()), (3, True), ended)

    def test_torch_shm_manager_has_time_after_the_agent_was_killed(self):
        """It removes shared memory once it has had no client for 2 s (tests/torch/test_jobs.py has
        the real one)."""
        manager, pipe, done = (self.folder / name for name in ("torch_shm_manager", "pipe", "done"))
        manager.symlink_to("/bin/sh")
        job = self.job("--shutdown-timeout=0", "--no-python", "sh", "-c", f"""
            mkfifo {pipe}; setsid {manager} -c 'cat < {pipe}; sleep 2; touch {done}' &
            exec 3> {pipe}; touch {self.folder}/up; exec sleep 1000""")
        self.wait_for("up")
        os.kill(job.agent(), signal.SIGKILL)
        ended = job.end()
        self.assertTrue(done.exists(), ended)
        self.assert_nothing_left(job)

    def test_a_second_signal_says_what_it_kills(self):
        job = self.job(*self.by_rank(*["exec $PUPPET ignore INT touch $DIR/up$RANK wait"] * 2))
        eventually(lambda: len(list(self.folder.glob("up*"))) == 2, "both workers run")
        # Signals within 250 ms of the first one count as the same request.
        eventually(lambda: job.process.poll() is not None or job.kill(signal.SIGINT), "it ends")
        ended = self.wait_for_exit(job, 128 + signal.SIGINT)
        self.assertIn("muster: warning: second SIGINT: killing ranks 0, 1 before they have "
                      "stopped; unsaved work is lost\n", ended.err)

    def assert_memory_is_removed(self, end, *, on="exit", options=("--shutdown-timeout=0",)):
        folder = self.folder / uuid.uuid4().hex
        folder.mkdir()
        job = self.job("--nproc-per-node=2", *options, self.python(SHARED_MEMORY), folder, on)
        eventually(lambda: {"0", "1"} <= set(os.listdir(folder)), "both have memory")
        names = [IN_MEMORY / (folder / rank).read_text() for rank in "01"]
        self.assertTrue(all(name.exists() for name in names))
        end(job, folder / on)
        ended = job.end()
        self.assert_nothing_left(job)
        self.assertEqual([name for name in names if name.exists()], [], ended)

    def test_the_resource_tracker_removes_shared_memory(self):
        def touch(_job, file):
            file.touch()

        def end_agent(job, _file):
            os.kill(job.agent(), signal.SIGKILL)

        def interrupt_twice(job, _file):
            job.kill(signal.SIGINT)
            time.sleep(0.3)
            job.kill(signal.SIGINT)

        self.assert_memory_is_removed(touch)
        self.assert_memory_is_removed(touch, on="fail")
        self.assert_memory_is_removed(lambda job, _: job.kill(signal.SIGTERM))
        self.assert_memory_is_removed(lambda job, _: job.kill(signal.SIGKILL))
        self.assert_memory_is_removed(end_agent)
        self.assert_memory_is_removed(touch, options=())
        self.assert_memory_is_removed(interrupt_twice, options=())
        self.assert_memory_is_removed(lambda job, _: job.kill(signal.SIGTERM),
                                      options=("--shutdown-timeout=1",))


class TemporaryFolders(JobCase):
    def own_tmpdir(self):
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir(exist_ok=True)
        return {**os.environ, "TMPDIR": str(self.temporary)}

    def test_what_was_shown_is_not_kept(self):
        ended = self.run_job(*self.puppets(2, "say", "a", "warn", "b", "exit", "0", options=[
            "--tee=3", "--duplicate-stdout-filters=a"]), env=self.own_tmpdir())
        self.assertEqual((ended.code, list(self.temporary.iterdir())), (0, []), ended)

    def test_logs_of_a_failure_and_redirected_ones_are_kept(self):
        for options, code in ((["--tee=3"], 3), (["--redirects=1"], 0)):
            self.run_job(*self.puppets(1, "say", "a", "exit", code, options=options),
                         env=self.own_tmpdir(), code=code)
            log, = self.temporary.rglob("stdout.log")
            self.assertEqual(log.read_text(), "a\n")
            log.unlink()


class InMemory(JobCase):
    """Without TMPDIR the folder for error files is in memory."""

    def start(self):
        told = self.folder / uuid.uuid4().hex
        job = self.job("--no-python", "sh", "-c",
                       f"echo $TORCHELASTIC_ERROR_FILE > {told}.new; mv {told}.new {told}; "
                       f"exec {PUPPET} wait", env=environment_without("TMPDIR"))
        self.wait_for(told.name)
        folder = pathlib.Path(told.read_text().strip()).parents[2]
        self.assertEqual(folder.parent, IN_MEMORY)
        return job, folder

    @staticmethod
    def age(folder):
        then = time.time() - LONG_AGO
        os.utime(folder, (then, then))

    def setUp(self):
        super().setUp()
        if not os.access(IN_MEMORY, os.W_OK):
            self.skipTest("no memory for files")

    def test_the_guard_removes_the_folder_of_a_killed_agent_with_its_error_files(self):
        job, folder = self.start()
        (folder / "attempt_0" / "0" / "error.json").write_text("{}")
        os.kill(job.agent(), signal.SIGKILL)
        self.assertEqual(job.end().code, 137)
        self.assertFalse(folder.exists())

    def test_a_later_run_removes_what_the_dead_have_left_and_spares_the_living(self):
        dead, left = self.start()
        (left / "attempt_0" / "0" / "error.json").write_text("{}")
        dead.process.send_signal(signal.SIGSTOP)
        agent = dead.agent()
        os.kill(agent, signal.SIGKILL)
        dead.process.send_signal(signal.SIGKILL)
        dead.process.wait()
        self.assert_nothing_left(dead)
        self.addCleanup(lambda: left.exists() and self.fail("it is still there"))
        _, alive = self.start()  # too young for this signal
        self.assertTrue(left.exists())
        self.age(left)
        self.age(alive)
        self.start()
        eventually(lambda: not left.exists(), "the folder of the dead job is removed")
        self.assertTrue(alive.exists())


class FileSizeLimit(JobCase):
    def test_no_room_for_files_is_said_and_the_jobs_code_is_the_workers(self):
        ended = self.run_job(*self.puppets(1, "exit", "3", options=[
            "--log-dir", self.folder / "logs"]), code=3,
            preexec_fn=limited(resource.RLIMIT_FSIZE, 0))
        self.assertIn("report.json': File too large", ended.err)

    def test_a_worker_has_the_signal_that_it_had(self):
        ended = self.run_job("--no-python", "grep", "SigIgn", "/proc/self/status")
        plain = int(ended.out.split()[1], 16)
        self.assertFalse(plain & (1 << (signal.SIGXFSZ - 1)), ended.out)
