# SPDX-License-Identifier: Apache-2.0
"""--http: its answers, the clients that it refuses, and clients that try to harm the job."""

import contextlib
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import unittest

from harness import JobCase, eventually, is_sanitized, read
from job_view import View, ctl, resident_bytes, wait_for_status, wait_until_ready
from nodes import LONG_LEASE, NEVER, NodesCase

BENCH = os.environ["MUSTER_BENCH"]
CONNECTIONS_MAX = 64  # lib/http/server.hpp
STREAMS_MAX = 48  # lib/http/session.hpp
PARSE = """
import sys
from prometheus_client.parser import text_string_to_metric_families as families
found = {family.name: family.type for family in families(sys.stdin.read())}
assert found["muster_regroup_seconds"] == "histogram", found
assert found["muster_rounds"] == "counter" and found["muster_round"] == "gauge", found
assert all(name.startswith("muster_") for name in found), found
"""
# A worker that reports step 7 to its agent.
TELLS = r"""
import os, socket, time
agent = socket.socket(socket.AF_UNIX)
agent.connect("\0" + os.environ["MUSTER_AGENT"])
agent.sendall(b'{"type":"progress","step":7}\n')
time.sleep(600)
"""


def raw(view, data):
    """The first line of the answer to these bytes; empty if the connection is closed."""
    with socket.create_connection((view.host, view.port), timeout=60) as to:
        to.sendall(data)
        to.shutdown(socket.SHUT_WR)
        out = b""
        with contextlib.suppress(ConnectionResetError):
            while part := to.recv(65536):
                out += part
        return out.decode().partition("\r\n")[0]


def start_named(job, count, nproc, first=1):
    """Each node with its own name, as on separate machines."""
    nodes = []
    for number in range(first, first + count):
        prefix = ["unshare", "--uts", "sh", "-c", f'hostname node{number}; exec "$@"', "sh"]
        nodes.append(job.start(number, nproc=nproc, popen={"prefix": prefix}))
        if number == 1:
            eventually(job.is_hosted, "the first node hosts")
    return nodes


def wait_for_leader(nodes):
    return next(node for node in nodes
                if wait_until_ready(node)["leader"])


class OneNode(JobCase):
    def view(self, *options, workers=2):
        self.running_job = self.job(*self.puppets(workers, "wait",
                                                  options=["--http", "0", *options]))
        view = View(self.running_job)
        wait_until_ready(self.running_job)
        return view

    def test_every_path(self):
        view = self.view()
        self.assertEqual((view.code("/healthz"), view.code("/readyz")), (200, 200))
        self.assertEqual(view.code("/nothing"), 404)
        status = view.status()
        self.assertEqual((status["v"], status["phase"], status["world_size"], status["leader"]),
                         (1, "running", 2, True))
        self.assertEqual([worker["state"] for worker in status["workers"]], ["running"] * 2)
        self.assertEqual(status["launcher_pid"], self.running_job.process.pid)
        self.assertEqual(status["agent_pid"], self.running_job.agent())
        self.assertIn("<svg", view.get("/v1/timeline.svg").text)
        events = view.get("/v1/events?follow=0")
        self.assertEqual(events.headers["Content-Type"], "text/event-stream")
        names = [json.loads(line[6:])["event"] for line in events.text.splitlines()
                 if line.startswith("data: ")]
        self.assertEqual(names, ["job_started", "http_opened", "round_begun"] +
                         ["worker_started"] * 2)

    def test_the_page_needs_nothing_from_elsewhere(self):
        view = self.view()
        page = view.get("/")
        self.assertEqual(page.headers["Content-Type"], "text/html; charset=utf-8")
        self.assertIn("default-src 'none'", page.headers["Content-Security-Policy"])
        files = ("/page.css", "/text.js", "/ranks.js", "/events.js", "/page.js")
        for path in ("/", *files):
            answer = view.get(path)
            self.assertEqual(answer.status, 200, path)
            self.assertNotRegex(answer.text, r"https?://", path)
            self.assertEqual(answer.headers["X-Content-Type-Options"], "nosniff")
        used = set(re.findall(r'(?:src|href)="([^"]+)"', page.text))
        links = {"/v1/status", "/v1/events?follow=0", "/metrics"}
        self.assertEqual(used, {"data:,", *files, *links})

    def test_head_has_the_length_and_no_body(self):
        view = self.view()
        answer = view.get("/healthz", method="HEAD")
        self.assertEqual((answer.status, answer.headers["Content-Length"], answer.text),
                         (200, "3", ""))

    def test_what_is_refused(self):
        view = self.view()
        host = b"Host: localhost\r\n"
        for data, code in (
                (b"POST / HTTP/1.1\r\n" + host + b"\r\n", 405),
                (b"DELETE /v1/status HTTP/1.1\r\n" + host + b"\r\n", 405),
                (b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", 403),
                (b"GET / HTTP/1.1\r\nHost: 127.0.0.1.example.org\r\n\r\n", 403),
                (b"GET / HTTP/1.1\r\n\r\n", 403),
                (b"GET / HTTP/1.1\r\n" + host + host + b"\r\n", 400),
                (b"GET / HTTP/1.1\r\n" + host + b"Content-Length: 3\r\n\r\nabc", 413),
                (b"GET / HTTP/1.1\r\n" + host + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", 413),
                (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\n" + host + b"\r\n", 431),
                (b"GET / HTTP/3.7\r\n" + host + b"\r\n", 505),
                (b"\x16\x03\x01\x02\x00\x01", 400),
                (b"no HTTP at all\r\n\r\n", 400)):
            with self.subTest(data[:40]):
                self.assertRegex(raw(view, data), rf"^HTTP/1\.1 {code} ")
        self.assertEqual(raw(view, b"GET / HTTP/1.1\r\n"), "")
        self.assertEqual(view.code("/healthz"), 200)

    def test_two_requests_at_once_are_answered_one_after_the_other(self):
        view = self.view()
        one = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        with socket.create_connection((view.host, view.port), timeout=60) as to:
            to.sendall(one * 3)
            out = b""
            while out.count(b"\r\n\r\nok\n") < 3:
                part = to.recv(65536)
                self.assertTrue(part, out)
                out += part

    def test_metrics_are_prometheus_text(self):
        view = self.view()
        text = view.get("/metrics").text
        for python in dict.fromkeys([sys.executable, "/usr/bin/python3"]):
            if subprocess.run([python, "-c", "import prometheus_client"],
                              stderr=subprocess.DEVNULL).returncode == 0:
                subprocess.run([python, "-c", PARSE], input=text, text=True, check=True)
                break
        else:
            self.skipTest("prometheus_client is missing - scripts/install_deps test")

    def test_promtool_has_nothing_to_say_about_the_metrics(self):
        if not shutil.which("promtool"):
            self.skipTest("promtool is missing (Debian's package prometheus)")
        done = subprocess.run(["promtool", "check", "metrics"], text=True, capture_output=True,
                              input=self.view().get("/metrics").text)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_output_is_counted(self):
        job = self.job(*self.by_rank("echo 0123456789; exec $PUPPET wait",
                                     options=["--http", 0, "--label"]))
        view = View(job)
        eventually(lambda: view.metrics()["muster_output_bytes_total"] == "11", "11 bytes")

    def test_the_step_that_a_worker_has_told(self):
        job = self.job(*self.by_rank(f"exec '{sys.executable}' '{self.python(TELLS)}'",
                                     "exec $PUPPET wait", options=["--http", 0]))
        view = View(job)
        eventually(lambda: view.metrics().get('muster_worker_step{rank="0"}') == "7", "step 7")
        self.assertNotIn('muster_worker_step{rank="1"}', view.metrics())
        self.assertEqual([worker["step"] for worker in view.status()["workers"]], [7, None])

    def test_the_gpus_that_a_worker_uses(self):
        self.executable("#!/bin/sh\ncase $1 in --query-gpu=*) printf 'GPU-a, 80\\nGPU-b, 7\\n' ;;\n"
                        f"*) echo \"$(cat {self.folder}/pid0), GPU-a, 2048\" ;;\nesac\n",
                        "nvidia-smi")
        env = {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"}
        job = self.job(*self.by_rank("echo $$ > $DIR/pid0; exec $PUPPET wait",
                                     "exec $PUPPET wait", options=["--http", 0]), env=env)
        view = View(job)
        eventually(lambda: view.metrics().get('muster_worker_gpus{rank="0"}') == "0.8", "it asks")
        self.assertEqual(
            [(worker["gpus"], worker["gpu_memory"]) for worker in view.status()["workers"]],
            [(0.8, 2 << 30), (None, None)])
        job.kill(signal.SIGTERM)
        self.assertNotIn("nvidia", self.wait_for_exit(job, 143).err)

    def test_a_hang_is_told_of_until_it_is_over(self):
        job = self.job(*self.by_rank("echo there; until test -e $DIR/go; do sleep 0.1; done; "
                                     "while echo again; do sleep 0.1; done",
                                     options=["--http", 0, "--label", "--hang-timeout", 1]))
        view = View(job)
        eventually(lambda: view.metrics()["muster_hang"] == "1", "it hangs")
        hang = view.status()["hang"]
        self.assertEqual((hang["ranks"], view.status()["phase"]), ([0], "running"))
        self.assertIn(f": {hang['text']}\n", ctl("status", "--pid", job.process.pid))
        (self.folder / "go").touch()
        eventually(lambda: view.metrics()["muster_hang"] == "0", "it goes on")
        self.assertGreaterEqual(int(view.metrics()["muster_hangs_total"]), 1)

    def test_a_restart_is_counted_and_the_picture_is_that_of_the_new_workers(self):
        job = self.job(*self.by_rank("test -e $DIR/again && exec $PUPPET wait; touch $DIR/again; "
                                     "exit 3", "exec $PUPPET wait",
                                     options=["--http", 0, "--max-restarts", 1]))
        view = View(job)
        status = wait_for_status(job, lambda status: status["ready"] and status["restarts"] == 1,
                                 "it runs again")
        self.assertEqual(status["round"], 2)
        failure, = status["failures"]
        self.assertEqual((failure["rank"], failure["round"], failure["cause"], failure["text"]),
                         (0, 1, "exit_code", "exited with code 3"))
        metrics = view.metrics()
        self.assertEqual(metrics['muster_failures_total{cause="exit_code"}'], "1")
        self.assertEqual(metrics["muster_restarts_total"], "1")
        self.assertEqual(metrics["muster_regroup_seconds_count"], "1")

    def test_an_event_stream_goes_on_where_it_was_and_ends_with_the_job(self):
        view = self.view()
        connection = view.connect()
        connection.request("GET", "/v1/events", headers=view.headers)
        stream = connection.getresponse()
        first = stream.readline().decode()
        run, _, number = first.removeprefix("id: ").strip().rpartition("-")
        self.assertEqual(number, "0")
        later = view.get("/v1/events?follow=0", **{"Last-Event-ID": f"{run}-1"}).text
        self.assertTrue(later.startswith(f"id: {run}-2\n"), later)
        other = view.get("/v1/events?follow=0", **{"Last-Event-ID": "x" * len(run) + "-1"}).text
        self.assertTrue(other.startswith(f"id: {run}-0\n"), other)
        self.running_job.kill(15)
        rest = stream.read().decode()
        self.assertIn('"event":"job_ended"', rest.splitlines()[-2])
        connection.close()
        self.assertEqual(self.running_job.end().code, 143)

    def test_a_port_that_is_taken_is_a_warning(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            ended = self.run_job(*self.puppets(1, "exit", "0", options=["--http", port]))
        self.assertEqual(ended.code, 0, ended)
        self.assertEqual(ended.err.count("\n"), 1, ended)
        self.assertIn(f"--http: cannot listen on 127.0.0.1:{port}: Address already in use",
                      ended.err)

    def test_wrong_addresses_are_usage_errors(self):
        for value, said in (("x", "has no port"), ("host:80", "'host' is not a numeric"),
                            ("70000", "65535"), ("127.0.0.1", "has no port")):
            ended = self.run_job("--http", value, *self.puppets(1, "exit", "0"), code=2)
            self.assertIn(said, ended.err)

    def test_explain_shows_it(self):
        out = self.run_job("--http", "localhost:8080", "--explain",
                           *self.puppets(1, "exit", "0")).out
        self.assertRegex(out, r"(?m)^http +127\.0\.0\.1:8080 +command line$")


class UnderLoad(NodesCase):
    """Two nodes with a lease that a blocked loop would miss, but not a slow machine: clients that
    are silent are dropped after 10 s."""

    def begin(self):
        job = self.cluster("2", conf=f"{NEVER},lease=5", options=["--http", 0])
        self.nodes = job.start_all(2)
        self.cluster_job = job
        self.one = job.round(2)
        view = View(self.nodes[0])
        wait_until_ready(self.nodes[0])
        return view

    def assert_unharmed(self, view):
        metrics = view.metrics()
        self.assertEqual((metrics["muster_round"], metrics["muster_regroups_total"],
                          metrics["muster_fences_total"]), ("1", "0", "0"))
        self.cluster_job.finish()

    def test_a_thousand_scrapes_a_second_for_ten_seconds(self):
        view = self.begin()
        agent = self.nodes[0].agent()
        self.scrape(view, 1000)
        before = resident_bytes(agent)
        self.assertEqual(self.scrape(view, 10_000)["answered"], 10_000)
        if not is_sanitized():
            self.assertLess(resident_bytes(agent) - before, 512 << 10)
        self.assertGreaterEqual(int(view.metrics()["muster_http_requests_total"]), 11_000)
        self.assert_unharmed(view)

    def scrape(self, view, count):
        """Requests /metrics a thousand times a second on schedule. Returns the measurements."""
        done = subprocess.run([BENCH, "scrape", "--port", str(view.port), "--rate", "1000",
                               "--requests", str(count)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done)
        return json.loads(done.stdout)

    def test_a_thousand_connections_that_say_nothing_keep_nobody_out(self):
        view = self.begin()
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        agent = self.nodes[0].agent()
        with contextlib.ExitStack() as stack:
            for _ in range(1000):
                stack.enter_context(socket.create_connection((view.host, view.port), timeout=60))
            self.assertEqual(view.code("/healthz"), 200)
            descriptors = len(os.listdir(f"/proc/{agent}/fd"))
            self.assertLess(descriptors, CONNECTIONS_MAX + 64)
        self.assert_unharmed(view)

    def test_streams_of_events_leave_room_for_others(self):
        view = self.begin()
        with contextlib.ExitStack() as stack:
            codes = []
            for _ in range(CONNECTIONS_MAX):
                connection = stack.enter_context(contextlib.closing(view.connect()))
                connection.request("GET", "/v1/events", headers=view.headers)
                answer = stack.enter_context(connection.getresponse())
                codes.append(answer.status)
            self.assertEqual(codes, [200] * STREAMS_MAX + [503] * (CONNECTIONS_MAX - STREAMS_MAX))
            self.assertEqual(view.code("/healthz"), 200)
        self.assert_unharmed(view)

    def test_clients_that_do_not_read_or_do_not_finish_are_dropped(self):
        view = self.begin()
        with socket.socket() as lazy, socket.create_connection((view.host, view.port)) as slow:
            lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            lazy.connect((view.host, view.port))
            request = ("GET /page.js HTTP/1.1\r\nHost: localhost\r\n"
                       f"Authorization: Bearer {view.key}\r\n\r\n").encode()
            lazy.settimeout(1)
            with contextlib.suppress(OSError):
                for _ in range(20000):  # until no more is accepted
                    lazy.send(request)
            slow.sendall(b"GET / HTTP/1.1\r\nHost: loc")
            slow.settimeout(60)
            self.assertEqual(slow.recv(1), b"")
            agent = self.nodes[0].agent()

            def clients():
                table = read(f"/proc/{agent}/net/tcp")
                return len(re.findall(rf":{view.port:04X} [0-9A-F]+:[0-9A-F]+ 01 ", table))

            eventually(lambda: clients() == 0, lambda: f"{clients()} are left")
            self.assertEqual(view.code("/healthz"), 200)
        self.assert_unharmed(view)


@unittest.skipIf(is_sanitized(), "64 workers are too much for sanitizers")
class ManyNodes(NodesCase):
    def test_a_job_that_loses_a_node_and_gets_another_one(self):
        if os.geteuid() != 0:
            self.skipTest("only root may give a process a host name of its own")
        job = self.cluster("8", conf=LONG_LEASE, options=["--http", 0])
        nodes = start_named(job, 8, 8)
        job.round(64)
        leader = wait_for_leader(nodes)
        lost = next(node for node in nodes[1:] if node is not leader)
        view = View(leader)
        status = view.status()
        self.assertEqual((status["world_size"], len(status["nodes"]), len(status["workers"])),
                         (64, 8, 8))
        self.assertEqual([node["rank_first"] for node in status["nodes"]], list(range(0, 64, 8)))
        connection = view.connect()
        connection.request("GET", "/v1/events", headers=view.headers)
        stream = connection.getresponse()
        lost.kill_all()
        eventually(lambda: view.code("/readyz") == 503, "it is not ready")
        status = wait_for_status(
            leader, lambda s: s["roll_call"] and s["roll_call"]["present"] == 7,
            "seven wait for another one")
        self.assertEqual((status["phase"], status["ready"]), ("waiting", False))
        start_named(job, 1, 8, first=9)
        job.round(64)
        eventually(lambda: view.code("/readyz") == 200, "it is ready again")
        status = view.status()
        self.assertEqual((status["regroups"], status["nodes_lost"], status["nodes_joined"]),
                         (1, 1, 1))
        last = status["rounds"][-1]
        self.assertEqual((last["left"], last["joined"]),
                         ([f"node{nodes.index(lost) + 1}"], ["node9"]))
        metrics = view.metrics()
        self.assertEqual((metrics["muster_world_size"], metrics["muster_nodes"],
                          metrics["muster_regroup_seconds_count"]), ("64", "8", "1"))
        job.finish(*[node for node in job.nodes if node is not lost])
        seen = [json.loads(line[6:])["event"] for line in stream.read().decode().splitlines()
                if line.startswith("data: ")]
        connection.close()
        self.assertEqual(seen.count("round_begun"), 2)
        self.assertLess(seen.index("regroup"), len(seen) - 1 - seen[::-1].index("round_begun"))
        self.assertEqual(seen[-1], "job_ended")

    def test_each_node_tells_what_it_knows(self):
        job = self.cluster("2", conf=f"{NEVER},lease=9", options=["--http", 0])
        first = job.start(1)
        call = wait_for_status(first, lambda s: s["roll_call"], "who is there")["roll_call"]
        self.assertEqual((call["present"], call["needed"]), (1, 2))
        self.assertEqual(View(first).code("/readyz"), 503)
        second = job.start(2)
        job.round(2)
        views = [wait_until_ready(node) for node in (first, second)]
        self.assertEqual(sorted(view["leader"] for view in views), [False, True])
        for view in views:
            self.assertEqual([node["state"] for node in view["nodes"]], ["in_round"] * 2)
            self.assertEqual(len(view["workers"]), 1)
        job.finish()
