# SPDX-License-Identifier: Apache-2.0
"""musterctl report: what every second of a job was used for, over restarts and requeues."""

import json
import os

from harness import JobCase
from job_view import ctl
from test_events import events_of

USES = ("running", "lost", "starting", "forming", "mending", "stopping", "waiting")

# Reports steps without waiting, saves once, waits until its launcher has seen the first step, and
# exits with the code in its argument unless it was restarted.
WORKER = """
import json, os, pathlib, socket, sys, time
sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
sock.connect("\\0" + os.environ["MUSTER_AGENT"])
lines = sock.makefile("rb")
lines.readline()
def send(**frame):
    sock.sendall(json.dumps(frame).encode() + b"\\n")
send(type="progress", step=1)
if sys.argv[2] == "saves":
    send(type="saved", step=1)
logs = pathlib.Path(sys.argv[3])
def count(name):
    found = logs.glob("*/events.jsonl")
    return sum(path.read_text().count('"event":"%s"' % name) for path in found)
rounds = count("round_begun")
while count("first_step") < rounds or sys.argv[2] == "saves" and count("saved") < rounds:
    time.sleep(0.01)
time.sleep(1.2)  # work, more than the loss that muster does not mention
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    sys.exit(int(sys.argv[1]))
"""


class Goodput(JobCase):
    def setUp(self):
        super().setUp()
        self.logs = self.folder / "logs"
        self.worker = self.python(WORKER, "worker.py")

    def run_once(self, *args, options=(), code=0):
        return self.run_job("--log-dir", self.logs, *options, self.worker, *args, self.logs,
                            code=code)

    def report(self):
        report = json.loads(ctl("report", "--json", self.logs))
        account = report["account"]
        known = [account[f"{use}_us"] or 0 for use in USES]
        self.assertEqual(sum(known), account["total_us"], account)
        self.assertTrue(all(use >= 0 for use in known), account)
        return report

    def test_the_uses_add_up_to_the_time_of_the_events(self):
        ended = self.run_once(3, "saves", options=["--max-restarts", 1])
        self.assertIn(" were lost: work since the last save. goodput: ", ended.err)
        report = self.report()
        folder, = self.logs.iterdir()
        events = events_of(folder)
        time = events[-1]["time"] - events[0]["time"]
        self.assertAlmostEqual(report["account"]["total_us"] / 1e6, time, places=5)
        self.assertGreater(report["account"]["lost_us"], 0)
        self.assertGreater(report["account"]["starting_us"], 0)
        text = ctl("report", self.logs)
        self.assertRegex(text, r"^worker.py on .*: succeeded with exit code 0\n")
        self.assertRegex(text, r"(?m)^goodput: [0-9.]+ % of the time was work that was kept$")

    def test_without_saves_the_loss_is_unknown(self):
        ended = self.run_once(3, "never", options=["--max-restarts", 1])
        self.assertNotIn("lost", ended.err)
        account = self.report()["account"]
        self.assertEqual((account["lost_us"], account["goodput"]), (None, None))
        self.assertRegex(ctl("report", self.logs), r"(?m)^  lost +unknown$")

    def test_a_job_without_a_failure_is_quiet(self):
        self.assertEqual(self.run_once(0, "saves").err, "")
        self.assertEqual(self.report()["account"]["lost_us"], 0)

    def test_the_delay_before_a_restart_is_waiting(self):
        self.run_once(3, "saves", options=["--max-restarts", 1, "--restart-delay", 0.2])
        self.assertGreaterEqual(self.report()["account"]["waiting_us"], 200_000)

    def test_a_requeued_job_continues_the_account(self):
        named = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", "--rdzv-id", "my-job",
                 "--max-restarts", 0]
        self.run_once(75, "saves", options=named, code=75)
        self.run_once(0, "saves", options=named)
        report = self.report()
        self.assertEqual([run["outcome"] for run in report["runs"]], ["failed", "succeeded"])
        first, second = (run["begun"] for run in report["runs"])
        account = report["account"]
        own = sum(run["total_us"] for run in report["runs"])
        self.assertEqual(account["total_us"], own + account["waiting_us"])
        self.assertGreater(account["total_us"], (second - first) * 1e6)
        self.assertIn("2 runs of this job:\n", ctl("report", self.logs))
        newest = max(self.logs.iterdir(), key=lambda path: os.path.getmtime(path / "events.jsonl"))
        self.assertEqual(len(json.loads(ctl("report", "--json", newest))["runs"]), 1)
        # A later job with the same name is another one, since the last run succeeded or failed.
        for code in (3, 0):
            self.run_once(code, "saves", options=named, code=code)
            self.assertEqual(len(self.report()["runs"]), 1)
