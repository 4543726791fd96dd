# SPDX-License-Identifier: Apache-2.0
"""events.jsonl, next to the logs: complete enough to generate report.json from it, and harmless."""

import json
import os
import pathlib
import re
import resource

from harness import JobCase, limited
from job_view import ctl
from nodes import LONG_LEASE, NodesCase

DOCUMENT = pathlib.Path(__file__).parents[2] / "lib" / "agent" / "EVENTS.md"
ENVELOPE = ["v", "time", "event", "node", "round"]
OF_A_FAILURE = ["rank", "local_rank", "pid", "attempt", "unix_time", "end", "started", "exit_code",
                "signal", "out_of_memory", "memory", "message", "traceback", "stderr_tail",
                "error_file", "step", "judgement"]


def events_of(folder):
    """All lines of a run's events.jsonl, each checked for the common fields."""
    lines = (folder / "events.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    for event in events:
        assert list(event)[:len(ENVELOPE)] == ENVELOPE, event
        assert event["v"] == 1, event
    return events


def only(events, name):
    event, = [event for event in events if event["event"] == name]
    return event


def failure_of(event):
    return {name: event[name] for name in OF_A_FAILURE if name in event}


def rebuild(events, folder):
    """report.json, from events alone. The account is musterctl's."""
    start, end = only(events, "job_started"), only(events, "job_ended")
    report = {name: value for name, value in end.items()
              if name not in ENVELOPE + ["root_rank", "other_ranks"]}
    report.update(program=start["program"], node=start["node"])
    checks = [{name: value for name, value in event.items() if name not in ("v", "event", "node")}
              for event in events if event["event"] == "check"]
    report["check"] = checks[-1] if checks else None
    report["account"] = json.loads(ctl("report", "--json", folder))["account"]
    if "root_rank" in end:
        last = end["attempts"] - 1
        failures = {event["rank"]: failure_of(event) for event in events
                    if event["event"] == "worker_failed" and event["attempt"] == last}
        report["root_cause"] = failures[end["root_rank"]] | {"node": start["node"]}
        report["other_failures"] = [failures[rank] for rank in end["other_ranks"]]
    return report


def documented():
    """The fields of each event by name, according to EVENTS.md."""
    found = {}
    for row in DOCUMENT.read_text().splitlines():
        cells = [cell.strip() for cell in row.split("|")]
        if len(cells) == 5 and re.fullmatch(r"`\w+`", cells[1]):
            found[cells[1].strip("`")] = set(re.findall(r"`(\w+)`", cells[2]))
    found["worker_dying"] = found["worker_ended"]
    return found


class EventsCase:
    def assert_documented(self, events):
        fields = documented()
        for event in events:
            unknown = set(event) - set(ENVELOPE) - fields[event["event"]]
            self.assertEqual(unknown, set(), event)

    def assert_rebuilds(self, folder):
        events = events_of(folder)
        report = json.loads((folder / "report.json").read_text())
        self.assertEqual(rebuild(events, folder), report)
        self.assert_documented(events)
        return events


class OneNode(JobCase, EventsCase):
    def run_folder(self):
        folder, = (self.folder / "logs").iterdir()
        return folder

    def options(self, *more):
        return ["--log-dir", self.folder / "logs", *more]

    def test_the_report_of_a_failed_job_can_be_made_from_them(self):
        # Two fail on their own: they first wait for each other, and ignore our stop request.
        script = ("trap '' TERM; echo text of $RANK >&2; UP=$DIR/$TORCHELASTIC_RESTART_COUNT; "
                  "touch $UP.$RANK; exec $PUPPET wait-file $UP.0 wait-file $UP.1 ")
        ended = self.run_job(*self.by_rank(script + "exit 9", script + "exit 8",
                                           "exec $PUPPET wait",
                                           options=self.options("--max-restarts", 1)))
        self.assertIn(ended.code, (8, 9), ended)
        events = self.assert_rebuilds(self.run_folder())
        names = [event["event"] for event in events]
        self.assertEqual(names[0], "job_started")
        self.assertEqual(names[-1], "job_ended")
        self.assertEqual([event["round"] for event in events if event["event"] == "round_begun"],
                         [1, 2])
        self.assertEqual(names.count("worker_started"), 6)
        self.assertEqual(names.count("worker_ended"), 6)
        restart = only(events, "restart")
        self.assertEqual((restart["restart"], restart["restarts_left"]), (1, 0))
        failed = {(event["attempt"], event["rank"]): event["stderr_tail"] for event in events
                  if event["event"] == "worker_failed"}
        self.assertEqual(failed, {(attempt, rank): f"text of {rank}\n"
                                  for attempt in (0, 1) for rank in (0, 1)})
        first = next(event for event in events if event["event"] == "worker_failed" and
                     event["rank"] == restart["rank"])
        self.assertEqual((first["attempt"], first["local_rank"], first["pid"]),
                         (0, restart["local_rank"], restart["pid"]))
        self.assertLess(events.index(first), names.index("round_begun", names.index("restart")))

    def test_an_exception_and_a_worker_that_cannot_be_started(self):
        self.run_job("--log-dir", self.folder / "logs",
                     self.python("raise ValueError('boom')\n"))
        self.assert_rebuilds(self.run_folder())
        second = self.folder / "second"
        program = self.executable("#!/nowhere\n", "without-interpreter")
        self.run_job("--log-dir", second, "--no-python", program, code=127)
        folder, = second.iterdir()
        self.assert_rebuilds(folder)

    def test_a_job_that_was_interrupted(self):
        job = self.job(*self.puppets(2, "touch", self.folder / "up", "wait",
                                     options=self.options()))
        self.wait_for("up")
        job.kill(15)
        self.assertEqual(job.end().code, 143)
        events = events_of(self.run_folder())
        self.assertEqual(only(events, "signal")["signal"], "SIGTERM")
        end = only(events, "job_ended")
        self.assertEqual((end["outcome"], end["exit_code"]), ("interrupted", 143))
        self.assertIn("SIGTERM", end["interruption"])
        self.assert_documented(events)

    def test_neither_arguments_nor_variables_of_the_job_are_in_them(self):
        self.run_job(*self.puppets(1, "exit", "9", "the-secret-argument",
                                   options=self.options()),
                     env=dict(os.environ, TOKEN="the-secret-value"), code=9)
        for path in self.run_folder().glob("*.json*"):
            self.assertNotIn("the-secret", path.read_text(), path)

    def test_success_is_written_as_well(self):
        ended = self.run_job(*self.puppets(1, "exit", "0", options=self.options()))
        self.assertEqual((ended.code, ended.err), (0, ""), ended)
        end = only(events_of(self.run_folder()), "job_ended")
        self.assertEqual((end["outcome"], end["root_rank"]), ("succeeded", None))

    def test_a_file_that_cannot_be_written_is_told_once_and_ends_no_job(self):
        ended = self.run_job(*self.puppets(2, "exit", "0", options=self.options()),
                             preexec_fn=limited(resource.RLIMIT_FSIZE, 0), code=0)
        self.assertEqual(ended.err.count("\n"), 1, ended)
        self.assertIn("cannot write 'events.jsonl': File too large; no further events will "
                      "be logged\n", ended.err)


class ManyNodes(NodesCase, EventsCase):
    def test_each_nodes_report_can_be_made_from_its_own(self):
        logs = self.folder / "logs"
        job, _, one = self.form("2", 2, nproc=2, conf=LONG_LEASE,
                                options=["--log-dir", logs, "--redirects", 3])
        job.order(one, 3, "fail the last line of rank 3")
        job.ends(code=1)
        folders = list(logs.iterdir())
        self.assertEqual(len(folders), 2)
        for folder in folders:
            events = self.assert_rebuilds(folder)
            self.assertEqual(only(events, "round_begun")["world_size"], 4)
            self.assertEqual({event["rank"] for event in events
                              if event["event"] == "worker_started"},
                             set(range(only(events, "round_begun")["rank_first"],
                                       only(events, "round_begun")["rank_first"] + 2)))
            self.assertIn("the last line of rank 3",
                          only(events, "job_ended")["root_cause"]["stderr_tail"])
