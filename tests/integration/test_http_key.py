# SPDX-License-Identifier: Apache-2.0
"""The key of --http: which users need it, which users receive it, and that it is written nowhere
else."""

import http.cookiejar
import json
import os
import re
import shutil
import subprocess
import unittest
import urllib.request

from harness import JobCase, children, eventually, read
from job_view import OTHER_USER, View, as_other_user, ctl, wait_until_ready

KEY = "0123456789abcdef-._~"
OPEN = ("/healthz", "/readyz", "/metrics")
GUARDED = ("/", "/page.js", "/page.css", "/v1/status", "/v1/events?follow=0", "/v1/timeline.svg",
           "/v1/url", "/nothing")
# What a user without the key sees of each path.
STRANGER = """
import sys, urllib.error, urllib.request
for path in sys.argv[2:]:
    try:
        with urllib.request.urlopen(sys.argv[1] + path) as answer:
            print(path, answer.status)
    except urllib.error.HTTPError as error:
        print(path, error.code, error.read().decode().strip())
"""


def browser():
    """Follows redirects and keeps cookies."""
    jar = http.cookiejar.CookieJar()
    return urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))


class Key(JobCase):
    def view(self, *options, program=None, **popen):
        what = program or self.puppets(1, "wait", options=["--http", "0", *options])
        self.running = self.job(*what, **popen)
        wait_until_ready(self.running)
        return View(self.running)

    def key_file(self, text=KEY, mode=0o600):
        path = self.folder / "key"
        path.write_text(text)
        path.chmod(mode)
        return path

    def test_probes_and_metrics_are_open_and_all_else_needs_the_key(self):
        view = self.view()
        for path in OPEN:
            self.assertEqual(view.get_with({}, path).status, 200, path)
        for path in GUARDED:
            with self.subTest(path):
                answer = view.get_with({}, path)
                self.assertEqual(answer.status, 401)
                self.assertEqual(answer.headers["WWW-Authenticate"], "Bearer")
                self.assertIn("Open the URL that muster printed", answer.text)
                self.assertEqual(answer.text.count("\n"), 1)
        for wrong in (view.key[1:], view.key + "0", view.key[:-1] + "g", ""):
            headers = {"Authorization": f"Bearer {wrong}"}
            self.assertEqual(view.get_with(headers, "/v1/status").status, 401, wrong)
        self.assertEqual(view.code("/v1/status"), 200)
        self.assertEqual(view.code("/v1/url"), 404)  # only for the Unix socket

    def test_a_browser_keeps_the_key_of_the_printed_url_as_a_cookie(self):
        view = self.view()
        line = self.running.process.stderr.readline().decode()
        url = re.search(r"http://\S+", line)[0]
        self.assertEqual(url, view.url)
        answer = view.get_with({}, "/?" + url.partition("?")[2])
        self.assertEqual((answer.status, answer.headers["Location"]), (303, "/"))
        self.assertEqual(answer.headers["Set-Cookie"],
                         f"muster-key-{view.port}={view.key}; Path=/; HttpOnly; SameSite=Strict")
        cookie = answer.headers["Set-Cookie"].partition(";")[0]
        self.assertEqual(view.get_with({"Cookie": cookie}, "/v1/status").status, 200)
        for wrong in (cookie[:-1], cookie.replace(str(view.port), "1")):
            self.assertEqual(view.get_with({"Cookie": wrong}, "/v1/status").status, 401)
        with browser().open(url) as page:
            self.assertEqual(page.url, url.partition("?")[0])
            self.assertIn("<html", page.read().decode())

    def test_two_jobs_on_one_host_keep_their_cookies_apart(self):
        views = self.view(), self.view()
        one = browser()
        for view in views:
            with one.open(view.url):
                pass
        for view in views:
            with one.open(f"http://127.0.0.1:{view.port}/v1/status") as status:
                self.assertTrue(json.load(status)["ready"])
        self.assertNotEqual(views[0].key, views[1].key)

    def test_the_key_is_on_standard_error_and_nowhere_else(self):
        logs = self.folder / "logs"
        view = self.view(program=self.by_rank(
            "env; exec $PUPPET touch $DIR/told wait",
            options=["--http", 0, "--log-dir", logs, "--tee", 3, "--log-level", "debug"]))
        self.assertRegex(view.key, "^[0-9a-f]{64}$")
        self.wait_for("told")  # its environment is in the log
        pid, agent = self.running.process.pid, self.running.agent()
        places = {f"/proc/{one}/{what}": read(f"/proc/{one}/{what}")
                  for one in (pid, agent, *children(agent)) for what in ("cmdline", "environ")}
        places.update({path: view.get(path).text for path in
                       ("/", "/v1/status", "/v1/events?follow=0", "/v1/timeline.svg", "/metrics")})
        for command in (["status"], ["status", "--json"], ["events", "--json"]):
            places[f"musterctl {command}"] = ctl(*command, "--pid", pid)
        self.running.kill(15)
        ended = self.running.end()
        self.assertEqual(ended.err.count(view.key), 1, ended)
        self.assertNotIn(view.key, ended.out)
        places.update({str(path): path.read_text() for path in logs.rglob("*") if path.is_file()})
        self.assertTrue(any("http_opened" in text for text in places.values()))
        self.assertTrue(any("LOCAL_RANK=0" in text for path, text in places.items()
                            if path.startswith(str(logs))), list(places))
        for place, text in places.items():
            self.assertNotIn(view.key, text, place)

    def test_a_file_that_others_can_read_does_not_get_the_key(self):
        for mode, has_key in ((0o644, False), (0o640, False), (0o600, True)):
            with self.subTest(oct(mode)):
                path = self.folder / f"err{mode}"
                path.touch()
                path.chmod(mode)
                with open(path, "wb") as err:
                    view = self.view(stderr=err)
                pid = self.running.process.pid
                said = eventually(path.read_text, "a line")
                self.assertEqual(view.key in said, has_key, said)
                self.assertEqual(f"musterctl url --pid {pid}" in said, not has_key, said)

    def test_the_key_of_a_file(self):
        view = self.view("--http-key", self.key_file(KEY + "\n"))
        self.assertEqual(view.key, KEY)
        self.assertEqual(view.get_with({"Authorization": f"Bearer {KEY}"}, "/").status, 200)
        self.assertEqual(view.get_with({}, "/").status, 401)

    def test_a_key_file_that_cannot_be_used_is_a_usage_error(self):
        for text, mode, said in (("short", 0o600, "has 5 bytes"), (KEY, 0o644, "chmod 600"),
                                 (KEY + ";", 0o600, "openssl rand -hex 32"),
                                 (KEY + "\nX-Header: 1", 0o600, "openssl rand -hex 32")):
            with self.subTest(said):
                ended = self.run_job(*self.puppets(
                    1, "exit", "0",
                    options=["--http", 0, "--http-key", self.key_file(text, mode)]), code=2)
                self.assertIn("--http-key: ", ended.err)
                self.assertIn(said, ended.err)
                self.assertNotIn(text.strip(), ended.err)
        ended = self.run_job(*self.puppets(1, "exit", "0",
                                           options=["--http", 0, "--http-key", "/none"]), code=2)
        self.assertIn("/none", ended.err)

    def test_explain_names_the_file_and_not_the_key(self):
        for value, shown in (([], "random"), (["--http-key", "none"], "none"),
                             (["--http-key", self.key_file()], str(self.folder / "key"))):
            out = self.run_job("--http", 0, *value, "--explain=all",
                               *self.puppets(1, "exit", "0")).out
            self.assertRegex(out, rf"(?m)^http-key +{re.escape(shown)} ")
            self.assertNotIn(KEY, out)

    def test_without_a_key_all_is_open(self):
        view = self.view("--http-key", "none")
        self.assertEqual(view.url, f"http://127.0.0.1:{view.port}/")
        for path in ("/", "/v1/status", "/v1/events?follow=0", "/v1/timeline.svg"):
            self.assertEqual(view.get_with({}, path).status, 200, path)
        self.assertNotIn("key", self.running.process.stderr.readline().decode())

    def test_url_of_a_job_without_http(self):
        job = self.job(*self.puppets(1, "wait"))
        wait_until_ready(job)
        self.assertIn("the job has no HTTP server", ctl("url", "--pid", job.process.pid, code=1))

    def test_musterctl_with_the_key_of_a_file(self):
        file = self.key_file()
        view = self.view("--http-key", file)
        there = ["--endpoint", f"http://localhost:{view.port}"]
        shown = f"launcher pid {self.running.process.pid}"
        self.assertIn(shown, ctl("status", *there, "--http-key", file))
        self.assertIn("worker_started", ctl("events", *there, "--http-key", file))
        other = self.folder / "other"
        other.write_text(KEY[::-1])
        self.assertIn("needs a different key", ctl("status", *there, "--http-key", other, code=1))
        other.write_text("a\rb")
        for path in (other, self.folder / "none"):
            self.assertIn(f"cannot read a key from '{path}'",
                          ctl("status", *there, "--http-key", path, code=1))
        said = ctl("status", "--endpoint", view.url, code=2)
        self.assertIn("omit ?key=...", said)
        self.assertNotIn(KEY, said)

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"),
                         "only root can be another user for a moment")
    def test_another_user_of_the_machine_is_refused(self):
        view = self.view()
        url = f"http://127.0.0.1:{view.port}"
        done = subprocess.run([*OTHER_USER, "python3", "-c", STRANGER, url, *GUARDED, *OPEN],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done)
        lines = done.stdout.splitlines()
        for line, path in zip(lines, GUARDED):
            self.assertTrue(line.startswith(f"{path} 401 this page needs a key. Open the URL that"),
                            line)
        self.assertEqual(lines[len(GUARDED):], [f"{path} 200" for path in OPEN])
        for args, said in ((["status", "--endpoint", url], "needs a key. Run musterctl on"),
                           (["url"], "no running job"),
                           (["url", "--pid", str(self.running.process.pid)], "no such job")):
            self.assertIn(said, as_other_user(*args))
