# SPDX-License-Identifier: Apache-2.0
"""Prints the time from the restart of a killed first node until it is in the next round: three
hosts, 20 returns. Not a test, because the time decides nothing. Needs root, and
    MUSTER_BIN=… MUSTER_PUPPET=… MUSTER_NODE_WORKER=… PYTHONPATH=tests/integration:tests/hosts \\
        python3 tests/hosts/measure_returns.py"""
import json
import statistics
import unittest

from hosts import HostsCase

RETURNS = 20


def time_to_round(events):
    """Milliseconds from this launcher's first event to its first round."""
    begun = next(event for event in events if event["event"] == "round_begun")
    return (begun["time"] - events[0]["time"]) * 1e3


class Returns(HostsCase):
    def one(self, logs):
        job = self.cluster("2:3", conf="last_call_timeout=500", options=["--log-dir", str(logs)])
        nodes = job.start_all(3)
        job.round(3)
        nodes[0].kill_all()
        job.round(2)
        back = job.start(1)
        job.round(3)
        job.finish(*nodes[1:], back)
        launchers = [[json.loads(line) for line in path.read_text().splitlines()]
                     for path in logs.rglob("events.jsonl")]
        return time_to_round(max(launchers, key=lambda events: events[0]["time"]))

    def test_returns(self):
        self.hosts()
        took = sorted(self.one(self.folder / f"logs{at}") for at in range(RETURNS))
        print(f"{RETURNS} returns, ms: median {statistics.median(took):.1f}, "
              f"{took[0]:.1f} to {took[-1]:.1f}", flush=True)


if __name__ == "__main__":
    unittest.main()
