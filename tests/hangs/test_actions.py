# SPDX-License-Identifier: Apache-2.0
"""The consequences of a verdict: --on-hang, the lines on stderr, the files, the events."""
import json
import os
import pathlib
import signal
import subprocess
import unittest

from test_hangs import HERE, HUNG, MUSTER, FolderCase, environment, kill_at_end, start


class Case(FolderCase):
    def setUp(self):
        super().setUp()
        os.mkfifo(self.folder / "fifo")

    def start(self, ranks, name, *options):
        return kill_at_end(self, start(str(self.folder), ranks, ["--hang-timeout=1", *options],
                                       "slow.py", name, stdin=subprocess.DEVNULL))

    def end(self, job, code):
        """What the job, which must exit with `code`, printed on stderr."""
        _, err = job.communicate(timeout=120)
        self.assertEqual(job.returncode, code, err)
        return err

    def line_with(self, job, text):
        """The first line on stderr that contains it, with the lines before it."""
        seen = ""
        for line in job.stderr:
            seen += line
            if text in line:
                return seen
        raise AssertionError(f"no '{text}' in:\n{seen}")

    def events(self):
        lines = next(self.folder.glob("logs/*/events.jsonl")).read_text().splitlines()
        return [json.loads(line) for line in lines]


class Actions(Case):
    def test_report_ends_nothing(self):
        job = self.start(3, "hang_always")
        self.line_with(job, "details:")
        (self.folder / "fifo").open("wb").close()  # rank 1 reads its end
        self.end(job, 0)
        events = self.events()
        hang = next(event for event in events if event["event"] == "hang")
        self.assertEqual((hang["ranks"], hang["cause"], hang["action"]),
                         ([1], "blocked_io", "report"))
        self.assertLessEqual(len(hang["text"]), 20)
        stories = pathlib.Path(hang["folder"])
        self.assertIn("read_fifo (slow.py", (stories / "rank1.txt").read_text())

    def test_what_goes_on_again_is_said(self):
        job = self.start(1, "steps_then_fifo")
        self.line_with(job, "details:")
        (self.folder / "fifo").open("wb").close()
        self.line_with(job, "workers are making progress again after")
        self.end(job, 0)

    def test_after_ctrl_z_a_job_is_watched_again(self):
        job = self.start(3, "hang_always")
        self.line_with(job, "details:")
        job.send_signal(signal.SIGTSTP)
        _, status = os.waitpid(job.pid, os.WUNTRACED)
        self.assertTrue(os.WIFSTOPPED(status), status)
        job.send_signal(signal.SIGCONT)
        self.assertIn("hang: rank 1: blocked in I/O on", self.line_with(job, "details:"))
        (self.folder / "fifo").open("wb").close()
        self.end(job, 0)

    def test_restart_uses_up_a_restart(self):
        job = self.start(3, "hang_once", "--on-hang=restart", "--max-restarts=1")
        err = self.end(job, 0)
        self.assertIn("hang: rank 1: blocked in I/O on", err)
        self.assertIn("restarting all workers", err)
        names = [event["event"] for event in self.events()]
        self.assertLess(names.index("hang"), names.index("workers_signalled"))
        self.assertEqual(names.count("hang"), 1)

    def test_restart_without_restarts_fails_with_the_cause(self):
        err = self.end(self.start(3, "hang_always", "--on-hang=restart"), 128 + 9)
        self.assertIn("rank 1 made no progress and was killed (--on-hang=restart)\n", err)
        self.assertIn("| hang: rank 1: blocked in I/O on", err)

    def test_stop_has_a_code_of_its_own(self):
        err = self.end(self.start(3, "hang_always", "--on-hang=stop", "--max-restarts=5"), HUNG)
        self.assertIn("rank 1 made no progress and was killed (--on-hang=stop)\n", err)
        self.assertIn("| hang: rank 1: blocked in I/O on", err)
        self.assertNotIn("restarting", err)
        events = self.events()
        names = [event["event"] for event in events]
        self.assertLess(names.index("hang"), names.index("workers_signalled"))
        self.assertEqual((events[-1]["exit_code"], events[-1]["root_rank"]), (HUNG, 1))
        report = json.loads(next(self.folder.glob("logs/*/report.json")).read_text())
        self.assertEqual((report["exit_code"], report["root_cause"]["rank"]), (HUNG, 1))
        self.assertIn("hang: rank 1: blocked in I/O on", report["root_cause"]["message"])

    def test_stop_ends_the_job_also_where_the_rank_has_left_an_error(self):
        # Like torch's record: the exception is written to the file, and then the cleanup hangs.
        err = self.end(self.start(2, "raise_and_hang", "--on-hang=stop", "--max-restarts=5"), HUNG)
        self.assertIn("rank 1 made no progress and was killed (--on-hang=stop)\n", err)
        self.assertIn("| ValueError: bad batch", err)
        self.assertNotIn("restarting", err)

    def test_without_py_spy_it_says_what_to_do(self):
        variables = environment(str(self.folder))
        variables["PATH"] = os.pathsep.join(
            folder for folder in variables["PATH"].split(os.pathsep)
            if not os.path.exists(os.path.join(folder, "py-spy")))
        done = subprocess.run(
            [MUSTER, "--nproc-per-node=3", "--tee=3", f"--log-dir={self.folder}/logs",
             "--hang-timeout=1", "--on-hang=stop", str(HERE / "slow.py"), "hang_always"],
            env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, timeout=120)
        self.assertEqual(done.returncode, HUNG, done.stderr)
        self.assertIn("hang: rank 1: blocked in I/O on", done.stderr)
        self.assertIn("py-spy is not in PATH (pip install py-spy)", done.stderr)

    def test_with_tee_silence_since_the_start_is_no_progress(self):
        err = self.end(self.start(1, "silent", "--on-hang=stop"), HUNG)
        self.assertIn("hang: rank 0: blocked in I/O on", err)
        self.assertNotIn("cannot see this program's progress", err)

    def test_with_labels_silence_since_the_start_is_no_progress(self):
        done = subprocess.run(
            [MUSTER, "-l", "--hang-timeout=1", "--on-hang=stop", str(HERE / "slow.py"), "silent"],
            env=environment(str(self.folder)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True, timeout=120)
        self.assertEqual(done.returncode, HUNG, done.stderr)
        self.assertIn("hang: rank 0: blocked in I/O on", done.stderr)

    def test_a_program_of_which_nothing_is_seen(self):
        with subprocess.Popen(
                [MUSTER, "--hang-timeout=1", str(HERE / "slow.py"), "silent"],
                env=environment(str(self.folder)), stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as job:
            said = self.line_with(job, "--hang-timeout cannot see this program's progress")
            self.assertNotIn("hang:", said)
            (self.folder / "fifo").open("wb").close()
            self.assertEqual(job.wait(timeout=120), 0)


if __name__ == "__main__":
    unittest.main()
