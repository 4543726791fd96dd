# SPDX-License-Identifier: Apache-2.0
"""The page of --http in a real browser: a job with 64 ranks on 8 nodes that loses one of them.
MUSTER_PICTURES names a folder for screenshots."""

import os
import unittest

from browser import PROGRAM, Browser
from harness import eventually
from job_view import View
from nodes import LONG_LEASE, NodesCase
from test_http import start_named, wait_for_leader


@unittest.skipUnless(PROGRAM, "chromium is missing (Debian's package of that name)")
@unittest.skipUnless(os.geteuid() == 0, "only root may give a process a host name of its own")
class Page(NodesCase):
    def setUp(self):
        super().setUp()
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

    def picture(self, name):
        if folder := os.environ.get("MUSTER_PICTURES"):
            self.browser.picture(f"{folder}/{name}.png")

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
        self.assertRegex(self.text("#facts"), r"1\s*nodes lost")
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
