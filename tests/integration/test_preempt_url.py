# SPDX-License-Identifier: Apache-2.0
"""--preempt-url: notices from metadata services, which a server of this test imitates at their
address, in a network namespace of its own."""

import ctypes
import http.server
import os
import signal
import subprocess
import sys
import threading
import time
import unittest

from harness import eventually
from test_preemption import PreemptionCase

CLONE_NEWNET = 0x40000000
ADDRESS = "169.254.169.254"
TOKEN = 'secret"token\\'


class Service(http.server.BaseHTTPRequestHandler):
    """Answers with (status, body) of the path. Records the requests."""
    answers = {}
    asked = []

    def do_GET(self):
        path = self.path.partition("?")[0]
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.asked.append((self.command, path, headers))
        status, body = self.answers.get(path, (404, "not found"))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body.encode())

    do_PUT = do_GET

    def log_message(self, *words):
        pass


@unittest.skipUnless(os.geteuid() == 0, "only root can create a network namespace")
class Clouds(PreemptionCase):
    @classmethod
    def setUpClass(cls):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(CLONE_NEWNET) != 0:
            raise unittest.SkipTest("no network namespace: " + os.strerror(ctypes.get_errno()))
        for words in ("link set lo up", f"address add {ADDRESS} dev lo"):
            subprocess.run(["ip", *words.split()], check=True)
        cls.server = http.server.ThreadingHTTPServer((ADDRESS, 80), Service)
        cls.addClassCleanup(cls.server.server_close)
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()
        cls.addClassCleanup(cls.server.shutdown)

    def setUp(self):
        super().setUp()
        Service.answers, Service.asked = {}, []

    def paths(self):
        return [path for _, path, _ in Service.asked]

    def preempt(self, source, before, after, *options):
        """Starts a job and gives notice when it has asked. before, after: the service's answers."""
        Service.answers = before
        job = self.start("train", f"--preempt-url={source}", *options)
        asked = len(before)
        eventually(lambda: len(Service.asked) >= asked, "muster asks")
        Service.answers = {**before, **after}
        ended = self.wait_for_exit(job, 75)
        step = self.assert_one_step(2)
        self.assertIn(f"preempted (--preempt-url={source}): all ranks saved step {step}\n",
                      ended.err)
        return ended

    def seconds(self):
        begun, = self.events("preempt")
        return begun["seconds"]

    def test_aws(self):
        path = "/latest/meta-data/spot/instance-action"
        ends = int(time.time()) + 120
        text = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ends))
        ended = self.preempt("aws", {"/latest/api/token": (200, TOKEN), path: (404, "")},
                             {path: (200, f'{{"action": "terminate", "time": "{text}"}}')},
                             "--log-level=debug")
        begun, = self.events("preempt")
        self.assertAlmostEqual(begun["time"] + begun["seconds"], ends - 5, delta=1)
        method, first, headers = Service.asked[0]
        self.assertEqual((method, first), ("PUT", "/latest/api/token"))
        self.assertIn("x-aws-ec2-metadata-token-ttl-seconds", headers)
        self.assertEqual({path for path in self.paths()[1:]}, {path})
        self.assertEqual(Service.asked[1][2]["x-aws-ec2-metadata-token"], TOKEN)
        self.assertNotIn(TOKEN, ended.err)

    def test_azure(self):
        name, events = "/metadata/instance/compute/name", "/metadata/scheduledevents"
        other = '{"Events": [{"EventType": "Preempt", "Resources": ["vm-2"], "NotBefore": ""}]}'
        self.preempt("azure", {name: (200, "vm-1"), events: (200, other)},
                     {events: (200, other.replace("vm-2", "vm-1"))})
        self.assertEqual({headers["metadata"] for _, _, headers in Service.asked}, {"true"})

    def test_google(self):
        path = "/computeMetadata/v1/instance/preempted"
        self.preempt("gcp", {path: (200, "FALSE")}, {path: (200, "TRUE")})
        self.assertEqual(Service.asked[0][2]["metadata-flavor"], "Google")
        self.assertAlmostEqual(self.seconds(), 30, delta=10)

    def test_a_url_that_fails_first(self):
        """One warning; muster continues to ask."""
        ended = self.preempt(f"http://{ADDRESS}/notice", {"/notice": (500, "out of order")},
                             {"/notice": (200, "now")})
        warning = (f"muster: warning: --preempt-url=http://{ADDRESS}/notice: the answer has status "
                   "500 (out of order); asking again every 5s\n")
        self.assertEqual(ended.err.count("asking again"), 1, ended)
        self.assertIn(warning, ended.err)

    def test_without_curl(self):
        path = self.folder / "path"
        path.mkdir()
        (path / "python3").symlink_to(os.path.realpath(sys.executable))
        job = self.start("train", "--preempt-url=gcp", PATH=str(path))
        job.stderr_until(b"--preempt-url=gcp: cannot run curl")
        job.kill(signal.SIGTERM)
        self.wait_for_exit(job, 75)


if __name__ == "__main__":
    unittest.main()
