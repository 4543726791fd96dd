# SPDX-License-Identifier: Apache-2.0
"""musterctl and running jobs: how it finds, shows and stops them."""

import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import unittest

from harness import JobCase, children, eventually, spawn
from job_view import (MUSTERCTL, OTHER_USER, View, as_other_user, ctl, status_of, wait_for_status,
                      wait_until_ready)
from nodes import NEVER, NodesCase


# Queries the job whose agent has this pid, without musterctl's own checks. Prints everything it
# receives.
STRANGER = """
import socket, struct, sys
names = {line.split()[-1] for line in open("/proc/net/unix") if " @muster-job-" in line}
for name in names:
    with socket.socket(socket.AF_UNIX) as to:
        try:
            to.connect("\\0" + name[1:])
            peer = to.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            if struct.unpack("3i", peer)[0] != int(sys.argv[1]):
                continue
            print("connected", flush=True)
            to.sendall(b"GET /v1/status HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n")
            print(to.recv(65536))
        except ConnectionError:
            pass
"""
# Claims that its parent is a job's launcher.
LIAR = """
import json, os, socket
listener = socket.socket(socket.AF_UNIX)
listener.bind(f"\\0muster-job-liar-{os.getppid()}")
listener.listen()
body = json.dumps({"launcher_pid": os.getppid(), "program": "liar"})
while True:
    one, _ = listener.accept()
    one.recv(65536)
    one.sendall(f"HTTP/1.1 200 OK\\r\\nContent-Length: {len(body)}\\r\\n\\r\\n{body}".encode())
    one.close()
"""


# Each rank reports another step, and rank 5 a problem.
REPORTS = """
import os, socket, time
rank = int(os.environ["RANK"])
agent = socket.socket(socket.AF_UNIX)
agent.connect("\\0" + os.environ["MUSTER_AGENT"])
if rank == 5:
    agent.sendall(b'{"type":"unhealthy","why":"the loss has not decreased for 1000 steps"}\\n')
agent.sendall(b'{"type":"progress","step":%d}\\n' % (1000 - rank))
time.sleep(1000)
"""


class OtherServer(http.server.BaseHTTPRequestHandler):
    """Knows no methods, and answers everything with 501."""

    def log_message(self, *args):
        pass


class Printing(JobCase):
    def test_text_that_cannot_be_written_is_a_failure(self):
        job = self.job(*self.puppets(1, "wait", options=["--http=0"]))
        wait_until_ready(job)
        this = ["--pid", str(job.process.pid)]
        for args in (["--help"], ["--version"], ["status", *this], ["status", "--json", *this],
                     ["events", *this], ["events", "--json", *this], ["url", *this],
                     ["timeline", "--svg", "-", *this]):
            with self.subTest(args), open("/dev/full", "wb") as full:
                done = subprocess.run([MUSTERCTL, *args], stdout=full, stderr=subprocess.PIPE,
                                      text=True, check=False)
                self.assertEqual((done.returncode, done.stderr), (
                    74, "musterctl: error: cannot write standard output\n"))


class Jobs(JobCase):
    def running(self, *options, workers=2):
        job = self.job(*self.puppets(workers, "wait", options=options))
        wait_until_ready(job)
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
        for command in ("stop", "report", "stacks", "flights"):
            self.assertIn("no such job", ctl(command, "--pid", 1, code=1))

    def test_an_endpoint_where_nothing_listens_is_named(self):
        self.assertIn("cannot reach localhost:1: Connection refused",
                      ctl("status", "--endpoint", "http://localhost:1", code=69))

    def test_wrong_command_lines(self):
        for args, said in ((("status", "--pid", "x"), "'x' is not a pid"),
                           (("stop", "--endpoint", "http://h:1"), "--endpoint"),
                           (("status", "--endpoint", "http://h"), "needs a port"),
                           (("status", "/tmp", "--pid", "1"), "cannot be combined"),
                           (("events", "--follow", "/tmp"), "omit the directory"),
                           (("timeline",), "--svg"), (("top",), "terminal"),
                           (("stacks", "x"), "'x' is not a rank"), (("stacks", "-1"), "-1"),
                           (("flights", "/tmp", "--pid", "1"), "cannot be combined"),
                           (("stats",), "unknown command stats (did you mean status?); see"),
                           (("wrong",), "unknown command wrong; see"),
                           (("drain",), "NODE"), (("flight", "/tmp"), "flight")):
            with self.subTest(args):
                self.assertIn(said, ctl(*args, code=2))

    def test_a_report_that_is_not_there_says_where_one_would_be(self):
        self.assertIn("; for a finished job use musterctl report DIR",
                      ctl("report", "--run-id", "none", code=1))
        self.assertIn("muster writes this file to its --log-dir",
                      ctl("report", self.folder, code=1))

    def test_nobody_listens_at_the_endpoint(self):
        self.assertIn("cannot reach 127.0.0.1:1: Connection refused",
                      ctl("status", "--endpoint", "http://127.0.0.1:1", code=69))

    def test_an_answer_of_another_server_is_an_error(self):
        server = http.server.HTTPServer(("127.0.0.1", 0), OtherServer)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        url = f"http://127.0.0.1:{server.server_address[1]}"
        for command in (["status"], ["events"], ["events", "--follow"],
                        ["timeline", "--svg", "-"]):
            with self.subTest(command):
                self.assertIn("failed with status 501", ctl(*command, "--endpoint", url, code=69))

    def test_another_user_is_turned_away(self):
        if os.geteuid() != 0 or not shutil.which("setpriv"):
            self.skipTest("only root can be another user for a moment")
        job = self.running()
        self.assertIn("no such job", as_other_user("status", *self.pid(job)))
        asked = subprocess.run([*OTHER_USER, "python3", "-c", STRANGER, str(job.agent())],
                               capture_output=True, text=True)
        self.assertIn(asked.stdout, ("connected\n", "connected\nb''\n"), asked)
        self.assertTrue(status_of(job)["ready"])

    def test_endpoint(self):
        job = self.running("--http", "0")
        view = View(job)
        url = f"http://localhost:{view.port}"
        self.assertIn(f"launcher pid {job.process.pid}", ctl("status", "--endpoint", url))
        self.assertIn("worker_started", ctl("events", "--endpoint", url + "/"))

    def test_a_host_whose_loopback_has_only_ipv6(self):
        if os.geteuid() != 0 or not shutil.which("ip"):
            self.skipTest("only root can make a network")
        prefix = ["unshare", "--net", "sh", "-c", 'ip link set lo up && '
                  'ip addr del 127.0.0.1/8 dev lo && exec "$@"', "sh"]
        ping = f"test $MASTER_ADDR = ::1 && {MUSTERCTL} store ping [::1]:$MASTER_PORT"
        for options in (["--http", 0], ["--standalone"], ["--master-addr", "localhost"]):
            ended = self.run_job(*options, "--nproc-per-node", 2, "sh", "-c", ping, prefix=prefix)
            self.assertEqual(ended.code, 0, ended)
            self.assertEqual("http://[::1]:" in ended.err, options == ["--http", 0], ended)

    def test_stop_ends_the_job_and_waits_for_it(self):
        job = self.running()
        self.assertEqual(ctl("stop", *self.pid(job)), f"pid {job.process.pid}: stopped\n")
        self.assertEqual(job.end().code, 143)
        self.assert_nothing_left(job)

    def test_root_stops_no_process_of_its_own_for_another_user(self):
        if os.geteuid() != 0 or not shutil.which("setpriv"):
            self.skipTest("only root can be another user for a moment")
        parent = spawn(self, ["sh", "-c", 'setpriv --reuid 65534 --clear-groups '
                              '--pdeathsig KILL python3 -c "$0"; :', LIAR])
        pid = ["--pid", parent.pid]
        eventually(lambda: subprocess.run([MUSTERCTL, "status", *map(str, pid)],
                                          capture_output=True).returncode == 0, "it answers")
        self.assertIn("is not visible from here", ctl("stop", *pid, code=1))
        self.assertIsNone(parent.poll())

    def test_stop_says_when_it_takes_too_long(self):
        job = self.job(*self.by_rank("trap '' TERM; touch $DIR/up; while :; do $PUPPET wait; done",
                                     options=["--shutdown-timeout", 60]))
        self.wait_for("up")
        self.assertIn("after the stop request",
                      ctl("stop", "--timeout", 0.2, *self.pid(job), code=69))

    def test_stacks_of_ranks_that_do_not_run_here(self):
        job = self.running()
        self.assertIn("rank 7 does not run on this host; local ranks: 0, 1",
                      ctl("stacks", 0, 7, *self.pid(job), code=1))

    def test_a_job_without_recorders_has_no_flights(self):
        self.assertIn("no flight recorder found", ctl("flights", *self.pid(self.running()), code=1))

    def test_a_job_of_one_node_is_not_drained(self):
        job = self.running()
        node = status_of(job)["node"]
        said = ctl("drain", node, *self.pid(job), code=1)
        self.assertIn("so draining would stop the job", said)
        self.assertIn(f"your jobs on this host have no node 'other'; their nodes: {node}",
                      ctl("drain", "other", *self.pid(job), code=1))
        self.assertTrue(status_of(job)["ready"])

    def test_followed_events_end_with_the_job(self):
        job = self.running()
        follower = spawn(self, [MUSTERCTL, "events", "--follow", "--json", "--pid",
                                str(job.process.pid)], stdout=subprocess.PIPE, text=True)
        self.assertEqual(json.loads(follower.stdout.readline())["event"], "job_started")
        job.kill(15)
        names = [json.loads(line)["event"] for line in follower.stdout]
        self.assertEqual(follower.wait(60), 0)
        self.assertEqual(names[-1], "job_ended")
        self.assertIn("signal", names)

    def test_the_files_of_a_job_that_has_ended(self):
        logs = self.folder / "logs"
        self.run_job(*self.by_rank("exec $PUPPET exit 9", "exec $PUPPET wait",
                                   options=["--log-dir", logs]), code=9)
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
        self.assertEqual(json.loads(ctl("report", "--json", logs))["exit_code"], 9)

    def test_report_of_a_running_job_shows_the_time_so_far(self):
        job = self.running("--log-dir", self.folder / "logs")
        self.assertRegex(ctl("report", *self.pid(job)),
                         r"^muster-puppet on .*: \w+\ntime of the job:\n  running ")
        report = json.loads(ctl("report", "--json", *self.pid(job)))
        self.assertTrue(report["logs"].startswith(f"{self.folder}/logs/"), report)
        self.assertGreater(report["account"]["total_us"], 0)


class ManyNodes(NodesCase):
    def test_several_are_a_list_and_have_to_be_chosen(self):
        job, nodes, _ = self.form("2", 2, conf=f"{NEVER},lease=9")
        lines = ctl("status", "--run-id", job.name).splitlines()
        self.assertEqual([line.split()[1] for line in lines],
                         sorted((str(node.process.pid) for node in nodes), key=int))
        said = ctl("events", "--run-id", job.name, code=2)
        self.assertIn("2 jobs are running here; select one with --pid", said)
        self.assertEqual(said.count("\n"), 1)
        text = ctl("status", "--pid", nodes[0].process.pid)
        self.assertEqual(len(re.findall(r"(?m)^\S+.* in_round", text)), 2, text)
        job.finish()

    def test_drain_lets_one_node_leave(self):
        job, (first, second), _ = self.form("1:2", 2, conf="last_call_timeout=5,lease=9")
        status = wait_for_status(second, lambda status: len(status["nodes"]) == 2, "it runs")
        node, = (node["name"] for node in status["nodes"] if node["here"])
        other, = (node["name"] for node in status["nodes"] if not node["here"])
        self.assertIn(f"{other} is on another host. Run musterctl drain {other} there",
                      ctl("drain", other, "--pid", second.process.pid, code=1))
        self.assertEqual(ctl("drain", node, "--run-id", job.name),
                         f"{node}: drained; its launcher (pid {second.process.pid}) has left the "
                         "job\n")
        job.round(1)
        job.ends(second, code=143)
        job.finish(first)


@unittest.skipUnless(shutil.which("tmux"), "tmux is missing - scripts/install_deps test")
class Top(JobCase):
    def tmux(self, *args):
        return subprocess.run(["tmux", "-S", str(self.folder / "tmux"), "-f", "/dev/null", *args],
                              capture_output=True, text=True, check=False).stdout

    def screen(self):
        return self.tmux("capture-pane", "-p")

    def start(self, workers=8, size=(80, 24)):
        self.job_shown = self.job(*self.puppets(workers, "wait"))
        wait_until_ready(self.job_shown)
        self.show(size)
        text = f"workers here, running: {workers} (ranks 0 to {workers - 1})"
        eventually(lambda: text in self.screen(), lambda: self.screen())

    def show(self, size):
        """Runs top in a terminal with this number of columns and rows."""
        columns, rows = map(str, size)
        if not self.tmux("list-sessions"):
            self.addCleanup(self.tmux, "kill-server")
            self.tmux("new-session", "-d", "-x", columns, "-y", rows, "sh")
        self.tmux("resize-window", "-x", columns, "-y", rows)
        self.tmux("send-keys", f"PS1='done $? '; stty -g >'{self.folder}/before'; clear; "
                  f"'{MUSTERCTL}' top --pid {self.job_shown.process.pid}", "Enter")

    def ranks_shown(self):
        """The ranks in the table, from the top."""
        rows = re.findall(r"(?m)^ *([0-9]+)  (?:running|unhealthy)", self.screen())
        return [int(rank) for rank in rows]

    def wait_for_ranks(self, *ranks):
        eventually(lambda: tuple(self.ranks_shown()[:len(ranks)]) == ranks, self.screen)

    def assert_terminal_is_as_before(self):
        self.tmux("send-keys", f"stty -g >'{self.folder}/after' && touch '{self.folder}/told'",
                  "Enter")
        self.wait_for("told")
        before, after = ((self.folder / name).read_text() for name in ("before", "after"))
        self.assertEqual(before, after)
        self.assertEqual(self.tmux("display-message", "-p", "#{alternate_on} #{cursor_flag}"),
                         "0 1\n")

    def test_many_workers_fit(self):
        self.start(64)
        lines = self.screen().splitlines()
        self.assertLessEqual(max(map(len, lines)), 80)
        self.assertLessEqual(len(lines), 24)
        self.assertTrue(lines[0].startswith("muster-puppet: job "), lines)  # nothing was scrolled
        self.tmux("send-keys", "q")
        eventually(lambda: "done 0" in self.screen(), lambda: self.screen())
        self.assert_terminal_is_as_before()

    def test_a_line_per_rank_fits_any_width_and_can_be_sorted_and_scrolled(self):
        script = self.python(REPORTS)
        self.job_shown = self.job("--label", "--nproc-per-node", 12, sys.executable, script)
        wait_for_status(self.job_shown, lambda status: len(status["workers"]) == 12 and all(
            worker["step"] for worker in status["workers"]), "they report")
        for columns in (60, 200):
            with self.subTest(columns):
                self.show((columns, 16))
                eventually(lambda: " 1000 " in self.screen(), self.screen)
                lines = self.screen().splitlines()
                self.assertLessEqual(max(map(len, lines)), columns)
                self.assertIn("5  unhealthy" if columns == 60 else
                              "5  unhealthy: the loss has not decreased for 1000 steps",
                              "\n".join(lines))
                self.assertEqual("…" in self.screen(), columns == 60)
                self.wait_for_ranks(0, 1, 2)
                shown = len(self.ranks_shown())
                self.assertLess(shown, 12)
                self.tmux("send-keys", "End")
                self.wait_for_ranks(*range(12 - shown, 12))
                self.tmux("send-keys", "Home", "r")
                self.wait_for_ranks(11, 10, 9)
                self.tmux("send-keys", "r", "Down")
                self.wait_for_ranks(1, 2)
                self.tmux("send-keys", "Up", "s", "s")
                eventually(lambda: "12 ranks by step" in self.screen(), self.screen)
                self.wait_for_ranks(11, 10, 9)
                self.tmux("send-keys", "q")
                eventually(lambda: "done 0" in self.screen(), self.screen)

    def test_it_shows_the_job_and_ends_with_it(self):
        self.start()
        lines = self.screen().splitlines()
        self.assertLessEqual(max(map(len, lines)), 80)
        self.assertTrue(lines[0].startswith("muster-puppet: job "), lines)
        self.job_shown.kill(15)
        eventually(lambda: "interrupted with exit code 143" in self.screen() and
                   "done 0" in self.screen(), lambda: self.screen())
        self.assert_terminal_is_as_before()

    def test_a_signal_ends_it_and_leaves_the_terminal_as_it_was(self):
        self.start()
        for pid in children(int(self.tmux("display-message", "-p", "#{pane_pid}"))):
            os.kill(pid, signal.SIGTERM)
        eventually(lambda: re.search(r"done \d", self.screen()), lambda: self.screen())
        self.assert_terminal_is_as_before()
        self.assertIsNone(self.job_shown.process.poll())

    def test_q_ends_it_and_leaves_the_terminal_as_it_was(self):
        self.start()
        self.tmux("send-keys", "q")
        eventually(lambda: re.search(r"done 0", self.screen()), lambda: self.screen())
        self.assertNotIn("workers here", self.screen())
        self.tmux("send-keys", "echo it''s back", "Enter")
        eventually(lambda: "its back" in self.screen(), lambda: self.screen())
        self.assert_terminal_is_as_before()
        self.assertIsNone(self.job_shown.process.poll())
