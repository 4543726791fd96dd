# SPDX-License-Identifier: Apache-2.0
"""What a running job reveals over --http and through musterctl."""

import http.client
import json
import os
import pathlib
import re
import subprocess

from harness import DEADLINE, eventually

MUSTERCTL = os.environ["MUSTERCTL"]
QUERIES = ("status", "events", "url", "report", "stacks", "flights", "timeline", "forget")
OTHER_USER = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]


def ctl(*args, code=0, **how):
    """The output of musterctl, which must exit with `code`."""
    if args[0] in QUERIES and code in (0, 1) and "--timeout" not in args:
        args += ("--timeout", 5)  # by default 1 s, in which a busy machine may not answer
    done = subprocess.run([MUSTERCTL, *map(str, args)], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=DEADLINE, **how)
    assert done.returncode == code, (args, done)
    return done.stdout if code == 0 else done.stderr


def as_other_user(*args):
    """What musterctl, which must fail without output, reports to another user (needs root)."""
    copy = "/proc/self/fd/0"  # other users may not have access to the build folder
    with open(MUSTERCTL, "rb") as program:
        done = subprocess.run([*OTHER_USER, copy, *map(str, args)], stdin=program,
                              capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, ""), done
    return done.stderr


def status_of(job):
    """/v1/status through the job's own socket; None until it answers."""
    done = subprocess.run([MUSTERCTL, "status", "--json", "--pid", str(job.process.pid)],
                          capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return json.loads(done.stdout) if done.returncode == 0 else None


def wait_for_status(job, check, what):
    def look():
        status = status_of(job)
        return status if status and check(status) else None
    return eventually(look, lambda: f"{what}; last: {status_of(job)}")


def wait_until_ready(job):
    return wait_for_status(job, lambda status: status["ready"], "it runs")


class View:
    """A client of one launcher's --http server, with the key."""

    def __init__(self, job):
        where = wait_for_status(job, lambda status: status["http"], "it listens")["http"]
        self.host, _, port = where.rpartition(":")
        self.port = int(port)
        self.url = ctl("url", "--pid", job.process.pid).strip()
        self.key = self.url.partition("?key=")[2]
        self.headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}

    def connect(self, timeout=DEADLINE):
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout)

    def get(self, path, method="GET", **headers):
        return self.get_with({**self.headers, **headers}, path, method)

    def get_with(self, headers, path, method="GET"):
        connection = self.connect()
        try:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            answer.text = answer.read().decode()
            return answer
        finally:
            connection.close()

    def code(self, path):
        return self.get(path).status

    def status(self):
        return json.loads(self.get("/v1/status").text)

    def metrics(self):
        """name{labels}: value, as text."""
        lines = self.get("/metrics").text.splitlines()
        return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))


def resident_bytes(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", text)[1]) * 1024
