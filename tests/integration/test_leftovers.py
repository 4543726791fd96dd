# SPDX-License-Identifier: Apache-2.0
"""Files that a run leaves behind, and limits of files."""

import os
import pathlib
import resource
import signal
import time
import unittest
import uuid

from harness import PUPPET, JobCase, eventually

IN_MEMORY = pathlib.Path("/dev/shm")
LONG_AGO = 120  # s


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
            ended = self.run_job(*self.puppets(1, "say", "a", "exit", code, options=options),
                                 env=self.own_tmpdir())
            self.assertEqual(ended.code, code, ended)
            log, = self.temporary.rglob("stdout.log")
            self.assertEqual(log.read_text(), "a\n")
            log.unlink()


class InMemory(JobCase):
    """Without TMPDIR the folder for error files is in memory."""

    def start(self):
        told = self.folder / uuid.uuid4().hex
        variables = {key: value for key, value in os.environ.items() if key != "TMPDIR"}
        job = self.job("--no-python", "sh", "-c",
                       f"echo $TORCHELASTIC_ERROR_FILE > {told}.new; mv {told}.new {told}; "
                       f"exec {PUPPET} wait", env=variables)
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
        _, alive = self.start()  # too young for this one
        self.assertTrue(left.exists())
        self.age(left)
        self.age(alive)
        self.start()
        eventually(lambda: not left.exists(), "the folder of the dead job is removed")
        self.assertTrue(alive.exists())


class FileSizeLimit(JobCase):
    def test_no_room_for_files_is_said_and_the_jobs_code_is_the_workers(self):
        def no_files():
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

        ended = self.run_job(*self.puppets(1, "exit", "3", options=[
            "--log-dir", self.folder / "logs"]), preexec_fn=no_files)
        self.assertEqual(ended.code, 3, ended)
        self.assertIn("report.json': File too large", ended.err)

    def test_a_worker_has_the_signal_that_it_had(self):
        ended = self.run_job("--no-python", "grep", "SigIgn", "/proc/self/status")
        plain = int(ended.out.split()[1], 16)
        self.assertFalse(plain & (1 << (signal.SIGXFSZ - 1)), ended.out)


if __name__ == "__main__":
    unittest.main()
