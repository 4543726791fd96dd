# SPDX-License-Identifier: Apache-2.0
"""Slow ranks are reported with their cost; if all ranks are alike, none is reported. With --table:
the reported cost next to the true one, measured against the same job without slow ranks
(scripts/bench)."""
import contextlib
import json
import os
import pathlib
import re
import signal
import sys
import tempfile
import threading
import unittest

from harness import Job, JobCase, eventually, free_port, spawn
from job_view import View, ctl, status_of, wait_for_status, wait_until_ready

WORKER = os.environ["MUSTER_STRAGGLER_WORKER"]
SLICE = 0.1  # s: period of the pauses, as in cpulimit
FOREVER = 1_000_000  # steps


def named(status):
    return (status["straggler"] or {}).get("ranks")


class Brake:
    """Pauses a process for a share of the time, until the end of the `with` block."""

    def __init__(self, pid, share):
        self.pid, self.share = pid, share
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        with contextlib.suppress(ProcessLookupError):
            while not self.over.wait(SLICE * (1 - self.share)):
                os.kill(self.pid, signal.SIGSTOP)
                self.over.wait(SLICE * self.share)
                os.kill(self.pid, signal.SIGCONT)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


class Stragglers(JobCase):
    def workers(self, ranks, *args, options=()):
        stop = self.folder / "stop"
        self.addCleanup(stop.touch)
        return self.job("--nproc-per-node", ranks, "--log-dir", self.folder / "logs", *options,
                        "--no-python", WORKER, *args, env=dict(os.environ, STOP_FILE=str(stop)))

    def finish(self, job):
        (self.folder / "stop").touch()
        ended = self.wait_for_exit(job, 0)
        return ended

    def events(self, name):
        [path] = self.folder.glob("logs/**/events.jsonl")
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        return [line for line in lines if line["event"] == name]

    def test_a_rank_with_more_to_do_is_named_once(self):
        job = self.workers(4, FOREVER, 20, "nap", "tell", 2, 20, options=["--http", "0"])
        status = wait_for_status(job, named, "rank 2 is named")
        self.assertEqual(named(status), [2])
        text = ctl("status", "--pid", job.process.pid)
        self.assertRegex(text, r"slow since \S+: rank 2 is slow: it costs the job \d+ %")
        self.assertRegex(text, r"waits for others: rank 2 \d+ %, rank \d \d+ %")
        metrics = View(job).metrics()
        self.assertEqual([metrics[f'muster_straggler{{rank="{rank}"}}'] for rank in range(4)],
                         ["0", "0", "1", "0"])
        self.assertGreater(float(metrics["muster_straggler_cost_ratio"]), 0.1)
        for rank in (0, 1, 3):
            waited = metrics[f'muster_worker_waiting_seconds_total{{rank="{rank}"}}']
            self.assertGreater(float(waited), 1)
        ended = self.finish(job)
        self.assertEqual(len(re.findall("is slow", ended.err)), 1, str(ended))
        [event] = self.events("straggler")
        self.assertEqual(event["ranks"], [2])
        self.assertGreater(event["lost_seconds"], 0.005)
        self.assertGreater(event["step_seconds"], event["lost_seconds"])

    def test_a_rank_that_is_stopped_for_a_part_of_the_time(self):
        job = self.workers(3, FOREVER, 20, "nap", "quiet")
        status = wait_until_ready(job)
        with Brake(status["workers"][1]["pid"], 0.4):
            status = wait_for_status(job, named, "rank 1 is named")
        self.assertEqual(named(status), [1])
        wait_for_status(job, lambda one: not named(one), "it is over")
        ended = self.finish(job)
        self.assertIn("rank 1 is no longer slow", ended.err)
        self.assertEqual([event["ranks"] for event in self.events("straggler_over")], [[1]])

    def test_of_ranks_that_are_alike_none_is_named_on_a_busy_machine(self):
        for _ in range(2 * (os.cpu_count() or 1)):
            spawn(self, ["sh", "-c", "while :; do :; done"])
        job = self.workers(4, FOREVER, 5, "spin", "tell")
        waits = eventually(lambda: self.long_watched(job), "a minute of steps")
        self.assertEqual(len(waits), 4)
        ended = self.finish(job)
        self.assertNotIn("slow", ended.err)
        self.assertEqual(self.events("straggler"), [])

    def long_watched(self, job):
        """The ranks' wait times, once they have run long enough to be judged."""
        status = status_of(job)
        if not status or not status["rounds"] or status["time"] - status["rounds"][0]["begun"] < 25:
            return None
        return [worker["waits"] for worker in status["workers"] if worker["waits"] is not None]

    def test_a_job_without_operations_has_no_waits(self):
        job = self.job(*self.puppets(2, "wait"))
        status = wait_until_ready(job)
        self.assertEqual([worker["waits"] for worker in status["workers"]], [None, None])
        self.assertNotIn("waits", ctl("status", "--pid", job.process.pid))


# -- the table of scripts/bench ---------------------------------------------------------------

class Quota:
    """Limits the CPU share of processes together: cgroup v1, as root."""

    def __init__(self, pids, share):
        self.pids, self.share = pids, share
        self.folder = pathlib.Path(f"/sys/fs/cgroup/cpu/muster-stragglers-{os.getpid()}")

    def __enter__(self):
        self.folder.mkdir()
        (self.folder / "cpu.cfs_period_us").write_text(str(int(SLICE * 1e6)))
        (self.folder / "cpu.cfs_quota_us").write_text(str(int(SLICE * 1e6 * self.share)))
        for pid in self.pids:
            (self.folder / "cgroup.procs").write_text(str(pid))

    def __exit__(self, *_):
        while (self.folder / "cgroup.procs").read_text():
            for pid in (self.folder / "cgroup.procs").read_text().split():
                with contextlib.suppress(ProcessLookupError):  # it has exited meanwhile
                    (self.folder.parent / "cgroup.procs").write_text(pid)
        self.folder.rmdir()


def launch(stack, nodes, args, logs, stop):
    """The launchers of one job, which share its ranks."""
    port = free_port()
    for node in range(1, nodes + 1):
        job = ["--nnodes", str(nodes), "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}",
               "--local-addr", f"127.0.0.{node}"] if nodes > 1 else []
        yield stack.enter_context(Job(
            [*job, "--nproc-per-node", str(int(args[0]) // nodes), "--log-dir", f"{logs}/{node}",
             "--no-python", WORKER, *args[1:]],
            env=dict(os.environ, STOP_FILE=str(stop), MUSTER_COLLECTIVE_HOST=f"host{node}")))


def measured(folder, args, disturb=None, nodes=1):
    """Seconds per step and the straggler events of one job that runs for a while."""
    stop = pathlib.Path(folder, "stop")
    stop.unlink(missing_ok=True)
    logs = tempfile.mkdtemp(dir=folder)
    with contextlib.ExitStack() as stack:
        jobs = list(launch(stack, nodes, args, logs, stop))
        status = wait_until_ready(jobs[0])
        with disturb(status["workers"][1]["pid"]) if disturb else contextlib.nullcontext():
            threading.Event().wait(MEASURED_S)
            stop.touch()
            out = "".join(job.end().out for job in jobs)
    events = [json.loads(line) for path in pathlib.Path(logs).glob("**/events.jsonl")
              for line in path.read_text().splitlines()]
    begun = max(event["time"] for event in events if event["event"] == "round_begun")
    found = re.search(r"steps of ([\d.]+) s", out)
    return float(found[1]), [(event, event["time"] - begun) for event in events
                             if event["event"] == "straggler"]


def table():
    """Rank 1 is slow; `costs` is what the same job saves without that, measured by its own
    steps."""
    row = "{:34} {:>7} {:>6} {:>7} {:>6} {:>6}"
    print(row.format("rank 1", "named", "steps", "said", "costs", "error"))
    with tempfile.TemporaryDirectory(prefix="muster_stragglers_") as folder:
        for name, args, more, disturb, nodes in CASES:
            alike, false_alarms = measured(folder, args, nodes=nodes)
            slow, events = measured(folder, [*args, *more], disturb, nodes)
            costs = 1 - alike / slow
            if false_alarms:
                print(f"    alike, and named: {false_alarms}")
            if not events:
                print(row.format(name, "nobody", "-", "-", f"{costs:.1%}", "-"), flush=True)
                continue
            event, after = events[0]
            print(row.format(name, ",".join(map(str, event["ranks"])), round(after / slow),
                             f"{event['share']:.1%}", f"{costs:.1%}",
                             f"{event['share'] / costs - 1:+.0%}"), flush=True)


MEASURED_S = 20.0
CALM = ["4", str(FOREVER), "80", "nap", "tell"]
BRIEF = ["4", str(FOREVER), "8", "nap", "tell"]
# (description, words of the job, additional words, what makes rank 1 slow, number of nodes)
CASES = [
    ("works 25 % more, 4 ranks", CALM, ["1", "20"], None, 1),
    ("works 50 % more, 4 ranks", CALM, ["1", "40"], None, 1),
    ("works twice as much, 8 ranks", ["8", *CALM[1:]], ["1", "80"], None, 1),
    ("the same, steps of 10 ms", BRIEF, ["1", "8"], None, 1),
    ("the same, on two nodes", BRIEF, ["1", "8"], None, 2),
    ("stopped for 30 %, 4 ranks", CALM, [],
     lambda pid: Brake(pid, 0.3), 1),
    ("stopped for 30 %, computing", ["2", str(FOREVER), "80", "spin", "tell"], [],
     lambda pid: Brake(pid, 0.3), 1),
    ("a quota of 60 %, computing", ["2", str(FOREVER), "80", "spin", "tell"], [],
     lambda pid: Quota([pid], 0.6), 1),
    ("like the others, computing", ["2", str(FOREVER), "80", "spin", "tell"], [], None, 1),
    ("like the others, too many ranks", ["7", str(FOREVER), "10", "spin", "tell"], [], None, 1),
]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--table"]:
        table()
    else:
        unittest.main()
