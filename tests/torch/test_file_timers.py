# SPDX-License-Identifier: Apache-2.0
"""Expiration timers (torch.distributed.elastic.timer): PyTorch's own client, and muster as its
server."""
import os
import stat
import unittest

import support
from support import worker

ENABLED = {"TORCHELASTIC_ENABLE_FILE_TIMER": "1"}


class FileTimers(support.TorchCase):
    def launch(self, what, *options, **variables):
        return support.run([support.program("muster"), "--nproc-per-node=2", *options,
                            worker("timers.py"), what],
                           env={**self.environment, **ENABLED, **variables}, cwd=self.folder)

    def assert_failed(self, done, code, how):
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertIn(f"rank 1 {how}", done.stderr)
        self.assertRegex(done.stderr, r"timer 'step' expired after \d00ms")

    def test_a_worker_whose_timer_expires_is_killed_and_the_report_names_the_timer(self):
        self.assert_failed(self.launch("blocks"), 137, "killed by SIGKILL")

    def test_the_worker_gets_the_signal_of_its_client(self):
        self.assert_failed(self.launch("asks"), 5, "exited with code 5")

    def test_a_child_process_that_blocks_fails_its_worker(self):
        self.assert_failed(self.launch("child"), 137, "killed by SIGKILL")

    def test_after_a_restart_all_timers_are_new(self):
        done = self.launch("blocks", "--max-restarts=1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("rank 1 has released its timers"), 2)

    def test_released_timers_have_no_effect(self):
        done = self.launch("short")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("timer", done.stderr)

    def test_the_user_may_choose_the_path(self):
        path = os.path.join(self.folder, "pipe")
        self.assert_failed(self.launch("blocks", TORCHELASTIC_TIMER_FILE=path), 137,
                           "killed by SIGKILL")
        self.assertTrue(stat.S_ISFIFO(os.stat(path).st_mode))

    def test_a_path_that_is_no_pipe_is_kept(self):
        path = os.path.join(self.folder, "notes")
        with open(path, "w", encoding="utf-8") as file:
            file.write("text")
        done = self.launch("short", TORCHELASTIC_TIMER_FILE=path)
        self.assertIn(f"TORCHELASTIC_ENABLE_FILE_TIMER has no effect: cannot create the named pipe "
                      f"{path}: File exists", done.stderr)
        self.assertIn("KeyError: 'TORCHELASTIC_TIMER_FILE'", done.stderr)
        self.assertEqual(os.path.getsize(path), 4)

    def test_without_the_variable_there_are_no_timers(self):
        done = self.launch("blocks", TORCHELASTIC_ENABLE_FILE_TIMER="0")
        self.assertIn("KeyError: 'TORCHELASTIC_TIMER_FILE'", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
