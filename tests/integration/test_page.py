# SPDX-License-Identifier: Apache-2.0
"""The page of --http in a real browser: a job with 64 ranks on 8 nodes that loses one of them, a
job whose ranks report their steps, and one with 1,024 ranks. MUSTER_PICTURES names a folder for
screenshots."""

import os
import re
import sys
import unittest

from browser import PROGRAM, Browser
from harness import JobCase, eventually
from job_view import View, wait_until_ready
from nodes import LONG_LEASE, NodesCase
from test_http import start_named, wait_for_leader


# Reports steps until the test creates `fail`; then rank 5 raises an error.
TRAINS = """
import os, sys, time
from muster import worker
rank, folder = int(os.environ["RANK"]), sys.argv[1]
print("up", flush=True)
with open(f"{folder}/pid{rank}", "w") as file:
    file.write(str(os.getpid()))
worker.event({"saved": "<b>step 0</b>"})
for step in range(10 ** 6):
    time.sleep(0.02)
    worker.progress(step, loss=0.36695849, norm=float("nan"))
    if rank == 5 and os.path.exists(folder + "/fail"):
        raise ValueError("loss is nan at <b>step</b>")
"""

# Bytes that the page has fetched without the event stream, and the seconds of these requests.
FETCHED = """(() => {
  const all = performance.getEntriesByType("resource").filter((one) => one.name.includes("/v1/"));
  return {count: all.length, seconds: (all.at(-1).responseEnd - all[0].responseEnd) / 1000,
          bytes: all.slice(1).reduce((sum, one) => sum + one.transferSize, 0)};
})()"""
BYTES_PER_SECOND_MAX = 200e3


class InBrowser:
    """Methods of tests that have a browser."""

    def start_browser(self):
        self.browser = Browser(self.folder / "browser")
        self.addCleanup(self.browser.close)

    def count(self, selector):
        return self.browser.ask(f"document.querySelectorAll('{selector}').length")

    def text(self, selector):
        return self.browser.ask(f"document.querySelector('{selector}').innerText")

    def wait_for_count(self, selector, count):
        eventually(lambda: self.count(selector) == count,
                   lambda: f"{selector}: {self.count(selector)} instead of {count}; "
                   f"{self.text('body')}")

    def wait_for_text(self, selector, pattern):
        eventually(lambda: re.search(pattern, self.text(selector) or ""),
                   lambda: f"{pattern} in {selector}: {self.text('body')}")

    def picture(self, name):
        if folder := os.environ.get("MUSTER_PICTURES"):
            self.browser.picture(f"{folder}/{name}.png")


@unittest.skipUnless(PROGRAM, "chromium is missing (Debian's package of that name)")
class OneNode(InBrowser, JobCase):
    def setUp(self):
        super().setUp()
        self.start_browser()

    def cell(self, row, title):
        """The text of a rank's cell under this title."""
        return self.browser.ask(f"""(() => {{
          const titles = [...document.querySelectorAll("#ranks th")].map((one) => one.textContent);
          const row = document.querySelectorAll("#ranks tbody tr")[{row}];
          return row?.cells[titles.indexOf("{title}")]?.textContent;
        }})()""")

    def wait_for_cell(self, row, title, pattern):
        eventually(lambda: re.fullmatch(pattern, self.cell(row, title) or ""),
                   lambda: f"{title}: {self.cell(row, title)!r}")

    def test_what_each_rank_reports_and_which_one_failed(self):
        self.executable("#!/bin/sh\ncase $1 in --query-gpu=*) echo GPU-a, 80 ;;\n"
                        f"*) echo $(cat {self.folder}/pid7), GPU-a, 2048 ;;\nesac\n",
                        "nvidia-smi")
        job = self.job("--http", 0, "--label", "--nproc-per-node", 8, sys.executable,
                       self.python(TRAINS), self.folder,
                       env={**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"})
        self.browser.open(View(job).url)
        self.wait_for_count("#ranks tbody tr", 8)
        self.wait_for_cell(7, "step", "[1-9][0-9]*")
        self.wait_for_cell(7, "steps/s", r"[0-9.]+")
        self.wait_for_cell(7, "loss", "0.367")
        self.wait_for_cell(7, "norm", "nan")
        self.wait_for_cell(7, "CPU", "[0-9]+ %")
        self.wait_for_cell(7, "memory", "[0-9.]+ [KM]iB")
        self.wait_for_cell(7, "GPU", "80 %")
        self.wait_for_cell(7, "GPU memory", "2.0 GiB")
        self.wait_for_cell(7, "last output", "[0-9]+ s ago")
        self.assertIsNone(self.cell(7, "waiting"))
        self.assertEqual(self.count("#banner[hidden]"), 1)
        self.browser.ask("document.querySelector('#ranks th button').click()")
        self.wait_for_cell(0, "rank", "7")
        self.wait_for_count("#steps polyline", 1)
        self.assertRegex(self.text("#events .worker_event"),
                         r'rank [0-7] reports \{"saved":"<b>step 0</b>"\}')
        self.browser.ask("document.querySelector('#events .worker_event details').open = true")
        self.wait_for_text("#events .worker_event dl", r"local_rank\s+[0-7]")
        self.picture("ranks")
        (self.folder / "fail").touch()
        self.wait_for_text("#phase", "failed")
        self.assertEqual(self.text("#failures code"), "ValueError: loss is nan at <b>step</b>")
        self.assertEqual(self.browser.ask(
            "[...document.querySelectorAll('.node .rank.failed')].map((one) => one.innerText)"),
            ["5"])
        self.assertEqual(self.count("#failures b b"), 0)
        self.picture("failed")
        self.assertEqual(job.end().code, 1)
        self.assertEqual(self.browser.said, [])

    def test_a_thousand_ranks(self):
        job = self.job(*self.puppets(1024, "wait", options=["--http", 0]))
        wait_until_ready(job)
        self.browser.open(View(job).url)
        self.wait_for_count("#ranks tbody tr", 1024)
        self.wait_for_count(".node .rank.running", 1024)
        self.wait_for_cell(1023, "memory", "[0-9.]+ [KM]iB")
        self.browser.ask("document.querySelector('#ranks th button').click()")
        self.wait_for_cell(0, "rank", "1023")
        eventually(lambda: self.browser.ask(FETCHED)["count"] >= 8, "it redraws")
        fetched = self.browser.ask(FETCHED)
        self.assertLessEqual(fetched["bytes"] / fetched["seconds"], BYTES_PER_SECOND_MAX, fetched)
        self.picture("thousand")
        self.assertEqual(self.browser.said, [])


@unittest.skipUnless(PROGRAM, "chromium is missing (Debian's package of that name)")
@unittest.skipUnless(os.geteuid() == 0, "only root may give a process a host name of its own")
class Page(InBrowser, NodesCase):
    def setUp(self):
        super().setUp()
        self.start_browser()

    def test_it_draws_a_job_that_loses_a_node_as_it_happens(self):
        job = self.cluster("6:8", conf=LONG_LEASE,
                           options=["--http", 0, "--max-restarts", 3])
        nodes = start_named(job, 8, 8)
        job.round(64)
        leader = wait_for_leader(nodes)
        lost = next(node for node in nodes[3:] if node is not leader)
        self.browser.open(View(leader).url)
        self.wait_for_count(".node:not(.left) .rank", 64)
        self.wait_for_count(".rank.running", 8 + 1)  # and one in the legend
        self.wait_for_count(".node.here", 1)
        self.wait_for_count("#timeline rect.tl-a", 8)
        self.picture("whole")
        lost.kill_all()
        again = job.round(56)
        self.wait_for_count(".node:not(.left) .rank", 56)
        self.wait_for_count(".node.left", 1)
        self.assertIn(f"node{nodes.index(lost) + 1}", self.text(".node.left"))
        self.assertRegex(self.text("#facts"), r"1\s*node lost")
        self.wait_for_count("#timeline rect.tl-b", 7)
        job.order(again, again.rank_of("n1"), "exit 3")
        job.round(56)
        self.wait_for_count("#rounds li b", 2)
        self.assertIn("running", self.text("#phase"))
        for scheme in ("light", "dark"):
            self.browser.colours(scheme)
            self.picture(scheme)
        wide = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        for width in (1200, 480):
            self.browser.call("Emulation.setDeviceMetricsOverride", width=width, height=1400,
                              deviceScaleFactor=1, mobile=False)
            self.assertTrue(self.browser.ask(wide), width)
            self.picture(f"{width}")
        job.finish(*[node for node in nodes if node is not lost])
        eventually(lambda: "succeeded" in self.text("#phase"), lambda: self.text("body"))
        self.wait_for_count(".node .rank.succeeded", 56)
        self.picture("ended")
        self.assertEqual(self.browser.said, [])
