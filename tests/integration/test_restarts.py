# SPDX-License-Identifier: Apache-2.0
"""Restarts of the whole group: numbered, within the budget, and not endless."""

import os
import pathlib
import signal
import unittest

from harness import JobCase


class Restarts(JobCase):
    def test_attempts_are_numbered_in_the_environment_and_in_kept_logs(self):
        # Each attempt ends differently, so that none counts as a repetition of the same failure.
        ended = self.run_job(*self.by_rank(
            "echo attempt $TORCHELASTIC_RESTART_COUNT of $TORCHELASTIC_MAX_RESTARTS; "
            "test $TORCHELASTIC_RESTART_COUNT = 3 && exit 0; "
            "exit $((10 + TORCHELASTIC_RESTART_COUNT))",
            "test $TORCHELASTIC_RESTART_COUNT = 3 && exit 0; exec $PUPPET wait",
            options=["--max-restarts", "3", "--redirects", "1", "--log-dir", self.folder / "logs"]))
        self.assertEqual(ended.code, 0, ended)
        run_dir, = (self.folder / "logs").iterdir()
        for attempt in range(4):
            log = run_dir / f"attempt_{attempt}" / "0" / "stdout.log"
            self.assertEqual(log.read_text(), f"attempt {attempt} of 3\n")
        self.assertEqual(ended.err.count("restarting all workers"), 3, ended)

    def test_a_temporary_folder_that_disappears_is_made_again_or_elsewhere(self):
        for lost in "$run", "$TMPDIR":
            with self.subTest(lost):
                temporary = self.folder / "tmp"
                temporary.mkdir(exist_ok=True)
                ended = self.run_job(*self.by_rank(
                    "run=${TORCHELASTIC_ERROR_FILE%/attempt_*}; "
                    f"if test $TORCHELASTIC_RESTART_COUNT = 0; then rm -r {lost}; exit 3; fi; "
                    "test -d ${TORCHELASTIC_ERROR_FILE%/*} && echo ${run%/*}",
                    options=["--max-restarts", "1"]),
                    env=dict(os.environ, TMPDIR=str(temporary)), code=0)
                place = str(temporary) if lost == "$run" else "/tmp"
                self.assertEqual(ended.out, place + "\n", ended)
                if temporary.exists():
                    self.assertEqual(list(temporary.iterdir()), [])

    def lose_folders(self, how):
        """Runs a job in its own mount namespace. Its worker does this to the temporary folders and
        fails once. Returns the job and what its second attempt prints: the error file, and what
        the temporary folder contains."""
        small = self.folder / "small"
        small.mkdir()
        mounts = f'mount -t tmpfs -o nr_inodes=200 tmpfs {small} && exec "$@"'
        ended = self.run_job(
            *self.by_rank(
                f"if test $TORCHELASTIC_RESTART_COUNT = 0; then {how}; exit 3; fi; "
                f"echo ${{TORCHELASTIC_ERROR_FILE:-none}}; ls -A {small}",
                options=["--max-restarts", "1"]),
            code=0, env=dict(os.environ, TMPDIR=str(small)),
            prefix=["unshare", "--mount", "--propagation=private", "sh", "-c", mounts, "sh"])
        file, *left = ended.out.split()
        return ended, file, left

    @unittest.skipUnless(os.geteuid() == 0, "needs root: mounts file systems")
    def test_a_temporary_folder_without_free_inodes_is_replaced(self):
        ended, file, left = self.lose_folders(
            "i=0; while mkdir $TMPDIR/filler$i 2>&-; do i=$((i + 1)); done")
        self.assertTrue(file.startswith("/tmp/muster_"), ended)
        self.assertFalse(pathlib.Path(file).parents[2].exists(), "removed at the end")
        self.assertRegex(ended.err, r"lost the run directory '.*/small/.*': cannot create directory"
                                    r" '.*': No space left on device; files of this attempt are in "
                                    r"'/tmp/muster_")
        self.assertEqual([name for name in left if "muster" in name], [], "the old one is removed")

    @unittest.skipUnless(os.geteuid() == 0, "needs root: mounts file systems")
    def test_without_any_writable_folder_the_job_restarts_without_files(self):
        ended, file, _ = self.lose_folders(
            "for each in /tmp /dev/shm; do mount --rbind $each $each; "
            "mount -o remount,bind,ro $each; done; mount -o remount,ro $TMPDIR")
        self.assertEqual(file, "none", ended)
        self.assertRegex(ended.err, "Read-only file system; workers continue without log files and "
                                    "error files\n")

    def test_a_log_folder_that_was_removed_is_made_again(self):
        logs = self.folder / "logs"
        ended = self.run_job(*self.by_rank(
            f"echo attempt $TORCHELASTIC_RESTART_COUNT; rm -r {logs}; "
            "exit $((10 + TORCHELASTIC_RESTART_COUNT))",
            options=["--max-restarts", "1", "--tee", "3", "--log-dir", logs]), code=11)
        self.assertEqual(ended.out, "[default0]:attempt 0\n[default0]:attempt 1\n", ended)
        self.assertIn(f"lost the run directory '{logs}/", ended.err)
        self.assertEqual(len(list(logs.glob("*/report.json"))), 1, ended)

    def test_the_budget_is_kept_and_the_last_code_is_the_jobs(self):
        ended = self.run_job(*self.by_rank(
            "echo x >> $DIR/starts; exit $((20 + TORCHELASTIC_RESTART_COUNT))",
            options=["--max-restarts", "2"]), code=22)
        self.assertEqual((self.folder / "starts").read_text(), "x\n" * 3)
        self.assertIn("all 2 restarts are used up", ended.err)

    def test_the_second_restart_without_progress_waits(self):
        ended = self.run_job(*self.by_rank("kill -KILL $$", options=["--max-restarts=2"]), code=137)
        self.assertEqual(
            [line for line in ended.err.splitlines() if "waiting" in line],
            ["muster: warning: waiting 1s before the restart (no progress since the last one; "
             "--restart-delay)"], ended)

    def test_three_failures_at_start_up_say_so_and_stop(self):
        ended = self.run_job(*self.by_rank("echo x >> $DIR/starts; exit 4",
                                           options=["--max-restarts", "50"]), code=4)
        self.assertEqual((self.folder / "starts").read_text(), "x\n" * 3)
        self.assertIn("fails at startup every time", ended.err)

    def test_quick_failures_off_uses_all_restarts(self):
        ended = self.run_job(*self.by_rank("echo x >> $DIR/starts; exit 4",
                                           options=["--max-restarts", "6", "--restart-delay=0",
                                                    "--quick-failures", "off"]), code=4)
        self.assertEqual((self.folder / "starts").read_text(), "x\n" * 7)
        self.assertIn("all 6 restarts are used up", ended.err)

    def test_deaths_by_signals_never_end_a_job_early(self):
        ended = self.run_job(*self.by_rank("echo x >> $DIR/starts; kill -KILL $$",
                                           options=["--max-restarts", "6",
                                                    "--restart-delay=0"]), code=137)
        self.assertEqual((self.folder / "starts").read_text(), "x\n" * 7)
        self.assertIn("all 6 restarts are used up", ended.err)

    def test_each_attempt_has_a_store_of_its_own_that_is_there_before_the_workers(self):
        script = self.python(
            "import os, socket, sys\n"
            "port = os.environ['MASTER_PORT']\n"
            "socket.create_connection((os.environ['MASTER_ADDR'], int(port))).close()\n"
            f"open('{self.folder}/ports', 'a').write(port + '\\n')\n"
            "sys.exit(int(os.environ['TORCHELASTIC_RESTART_COUNT']) == 0)\n")
        self.run_job("--max-restarts", 1, script, code=0)
        ports = (self.folder / "ports").read_text().split()
        self.assertEqual(len(ports), 2)

    def test_nothing_of_the_attempt_before_runs_beside_the_next(self):
        self.run_job(*self.by_rank(
            "test $TORCHELASTIC_RESTART_COUNT = 1 && { test -e /proc/$(cat $DIR/daemon)/fd; "
            "exit $((1 - $?)); }; exec $PUPPET wait",
            "test $TORCHELASTIC_RESTART_COUNT = 1 && exit 0; "
            "setsid sh -c 'trap \"\" TERM; echo $$ > $DIR/daemon; exec sleep 1000' & "
            "exec $PUPPET wait-file $DIR/daemon exit 6",
            options=["--max-restarts", "1"]), env=self.with_dir(), code=0)

    def with_dir(self):
        return dict(os.environ, DIR=str(self.folder))

    FAILS_ONCE = ("test $TORCHELASTIC_RESTART_COUNT = 1 && touch $DIR/second; "
                  "exit $((3 - 3 * TORCHELASTIC_RESTART_COUNT))",)

    def test_a_delay_before_the_restart(self):
        delay = 0.3
        ended = self.run_job(*self.by_rank(
            "date +%s.%N >$DIR/at$TORCHELASTIC_RESTART_COUNT; " + self.FAILS_ONCE[0],
            options=["--max-restarts=1", f"--restart-delay={delay}"]), code=0)
        times = [float((self.folder / f"at{attempt}").read_text()) for attempt in (0, 1)]
        self.assertGreater(times[1] - times[0], delay)
        said = ended.err.splitlines()
        self.assertIn("restarting all workers", said[0])
        self.assertEqual(said[1:], [
            "muster: warning: waiting 300ms before the restart (--restart-delay)"], ended)

    def test_a_signal_ends_the_delay(self):
        job = self.job(*self.by_rank(
            *self.FAILS_ONCE, options=["--max-restarts=1", "--restart-delay=59m"]))
        while b"before the restart" not in job.process.stderr.readline():
            self.assertIsNone(job.process.poll())
        job.kill(signal.SIGTERM)
        self.assertEqual(job.end().code, 128 + signal.SIGTERM)
        self.assertFalse((self.folder / "second").exists())

    def test_no_delay_before_the_end(self):
        ended = self.run_job(*self.by_rank(
            "exit 4", options=["--restart-delay=59m"]), code=4)
        self.assertNotIn("--restart-delay", ended.err)

    def test_ten_times_two_default_launches_at_once_do_not_collide(self):
        script = self.python(
            "import os, pathlib, sys, time\n"
            "me, other = sys.argv[1:]\n"
            "pathlib.Path(me + os.environ['RANK']).write_text(os.environ['MASTER_PORT'])\n"
            "while not pathlib.Path(other + os.environ['RANK']).exists(): time.sleep(0.005)\n")
        for turn in range(10):
            names = [f"{self.folder}/{turn}{side}_" for side in "ab"]
            jobs = [self.job("--nproc-per-node", 2, script, *order)
                    for order in (names, names[::-1])]
            for job in jobs:
                ended = job.end()
                self.assertEqual((ended.code, ended.err), (0, ""), ended)
            ports = {pathlib.Path(name + "0").read_text() for name in names}
            self.assertEqual(len(ports), 2, "two jobs shared a store")
