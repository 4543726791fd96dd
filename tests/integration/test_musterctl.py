# SPDX-License-Identifier: Apache-2.0
"""musterctl and running jobs: how they are found, what is shown of them, how they are stopped."""

import json
import os
import re
import shutil
import subprocess
import unittest

from harness import JobCase, eventually
from job_view import MUSTERCTL, View, ctl, status_of, wait_for_status
from nodes import NodesCase


class Jobs(JobCase):
    def running(self, *options, workers=2):
        job = self.job(*self.puppets(workers, "wait", options=options))
        wait_for_status(job, lambda status: status["ready"], "it runs")
        return job

    def pid(self, job):
        return ["--pid", job.process.pid]

    def test_a_job_is_shown_without_any_option(self):
        job = self.running()
        text = ctl("status", *self.pid(job))
        self.assertRegex(text, rf"^muster-puppet: job .*, launcher pid {job.process.pid}\n")
        self.assertIn("workers here, running: 2 (ranks 0 to 1)\n", text)
        status = json.loads(ctl("status", "--json", "--pid", job.agent()))
        self.assertEqual(status["launcher_pid"], job.process.pid)
        self.assertEqual(ctl("status", "--run-id", status["job"]).splitlines()[0],
                         text.splitlines()[0])

    def test_no_such_job(self):
        self.assertIn("no such job", ctl("status", "--run-id", "none", code=1))
        for command in ("stop", "report"):
            self.assertIn("no such job", ctl(command, "--pid", 1, code=1))

    def test_wrong_command_lines(self):
        for args, said in ((("status", "--pid", "x"), "'x' is no pid"),
                           (("stop", "--endpoint", "http://h:1"), "--endpoint"),
                           (("status", "--endpoint", "http://h"), "needs a port"),
                           (("status", "/tmp", "--pid", "1"), "not several"),
                           (("events", "--follow", "/tmp"), "leave the folder out"),
                           (("timeline",), "--svg"), (("top",), "terminal")):
            with self.subTest(args):
                self.assertIn(said, ctl(*args, code=2))

    def test_nobody_listens_at_the_endpoint(self):
        self.assertIn("refused", ctl("status", "--endpoint", "http://127.0.0.1:1", code=69))

    def test_another_user_is_turned_away(self):
        if os.geteuid() != 0 or not shutil.which("setpriv"):
            self.skipTest("only root can be another user for a moment")
        job = self.running()
        other = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
        copy = "/proc/self/fd/0"  # the build folder may be closed to others
        with open(MUSTERCTL, "rb") as program:
            done = subprocess.run([*other, copy, "status", *map(str, self.pid(job))],
                                  stdin=program, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (1, ""), done)
        self.assertIn("no such job of yours", done.stderr)
        self.assertTrue(status_of(job)["ready"])

    def test_endpoint(self):
        job = self.running("--http", "0")
        view = View(job)
        url = f"http://localhost:{view.port}"
        self.assertIn(f"launcher pid {job.process.pid}", ctl("status", "--endpoint", url))
        self.assertIn("worker_started", ctl("events", "--endpoint", url + "/"))

    def test_stop_ends_the_job_and_waits_for_it(self):
        job = self.running()
        self.assertEqual(ctl("stop", *self.pid(job)), f"pid {job.process.pid}: stopped\n")
        self.assertEqual(job.end().code, 143)
        self.assert_nothing_left(job)

    def test_stop_says_when_it_takes_too_long(self):
        job = self.job(*self.by_rank("trap '' TERM; touch $DIR/up; while :; do $PUPPET wait; done",
                                     options=["--shutdown-timeout", 60]))
        self.wait_for("up")
        self.assertIn("asked to stop, and still there",
                      ctl("stop", "--timeout", 0.2, *self.pid(job), code=69))

    def test_followed_events_end_with_the_job(self):
        job = self.running()
        follower = subprocess.Popen([MUSTERCTL, "events", "--follow", "--json", "--pid",
                                     str(job.process.pid)], stdout=subprocess.PIPE, text=True)
        self.addCleanup(follower.stdout.close)
        self.assertEqual(json.loads(follower.stdout.readline())["event"], "job_started")
        job.kill(15)
        names = [json.loads(line)["event"] for line in follower.stdout]
        self.assertEqual(follower.wait(60), 0)
        self.assertEqual(names[-1], "job_ended")
        self.assertIn("signal", names)

    def test_the_files_of_a_job_that_has_ended(self):
        logs = self.folder / "logs"
        ended = self.run_job(*self.by_rank("exec $PUPPET exit 9", "exec $PUPPET wait",
                                           options=["--log-dir", logs]))
        self.assertEqual(ended.code, 9, ended)
        text = ctl("status", logs)
        self.assertIn("failed with exit code 9 after ", text)
        self.assertRegex(text, r"(?m)^failed at .*: rank 0 on .*: exited with code 9$")
        events = ctl("events", "--json", logs).splitlines()
        file, = logs.glob("*/events.jsonl")
        self.assertEqual(events, file.read_text().splitlines())
        self.assertEqual(len(ctl("events", logs).splitlines()), len(events))
        picture = self.folder / "t.svg"
        ctl("timeline", "--svg", picture, logs)
        self.assertEqual(picture.read_text(), ctl("timeline", "--svg", "-", logs))
        self.assertIn('class="tl-failed"', picture.read_text())
        self.assertEqual(json.loads(ctl("report", logs))["exit_code"], 9)

    def test_report_of_a_running_job_says_where_it_will_be(self):
        job = self.running("--log-dir", self.folder / "logs")
        self.assertIn(f"its report will be in '{self.folder}/logs/",
                      ctl("report", *self.pid(job), code=1))


class ManyNodes(NodesCase):
    def test_several_are_a_list_and_have_to_be_chosen(self):
        job = self.cluster("2", conf="last_call_timeout=500,lease=9")
        nodes = job.start_all(2)
        job.round(2)
        lines = ctl("status", "--run-id", job.name).splitlines()
        self.assertEqual([line.split()[1] for line in lines],
                         sorted((str(node.process.pid) for node in nodes), key=int))
        said = ctl("events", "--run-id", job.name, code=2)
        self.assertIn("2 jobs run here: choose one by --pid", said)
        self.assertEqual(said.count("\n"), 1)
        text = ctl("status", "--pid", nodes[0].process.pid)
        self.assertEqual(len(re.findall(r"(?m)^\S+.* in_round", text)), 2, text)
        job.finish()


@unittest.skipUnless(shutil.which("tmux"), "tmux is missing - scripts/install_deps test")
class Top(JobCase):
    def tmux(self, *args):
        return subprocess.run(["tmux", "-S", str(self.folder / "tmux"), "-f", "/dev/null", *args],
                              capture_output=True, text=True, check=False).stdout

    def screen(self):
        return self.tmux("capture-pane", "-p")

    def start(self):
        self.job_shown = self.job(*self.puppets(8, "wait"))
        wait_for_status(self.job_shown, lambda status: status["ready"], "it runs")
        self.addCleanup(self.tmux, "kill-server")
        self.tmux("new-session", "-d", "-x", "80", "-y", "24", "sh")
        self.tmux("send-keys", f"PS1='done $? '; clear; '{MUSTERCTL}' top --pid "
                  f"{self.job_shown.process.pid}", "Enter")
        eventually(lambda: "workers here, running: 8 (ranks 0 to 7)" in self.screen(),
                   lambda: self.screen())

    def test_it_shows_the_job_and_ends_with_it(self):
        self.start()
        lines = self.screen().splitlines()
        self.assertLessEqual(max(map(len, lines)), 80)
        self.assertTrue(lines[0].startswith("muster-puppet: job "), lines)
        self.job_shown.kill(15)
        eventually(lambda: "interrupted with exit code 143" in self.screen() and
                   "done 0" in self.screen(), lambda: self.screen())

    def test_q_ends_it_and_leaves_the_terminal_as_it_was(self):
        self.start()
        self.tmux("send-keys", "q")
        eventually(lambda: re.search(r"done 0", self.screen()), lambda: self.screen())
        self.assertNotIn("workers here", self.screen())
        self.tmux("send-keys", "echo it''s back", "Enter")
        eventually(lambda: "its back" in self.screen(), lambda: self.screen())
        self.assertIsNone(self.job_shown.process.poll())


if __name__ == "__main__":
    unittest.main()
