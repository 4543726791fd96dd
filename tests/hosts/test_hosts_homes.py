# SPDX-License-Identifier: Apache-2.0
"""Which home directories make the nodes of a job trust each other on first use: all those that
other hosts cannot share. Each host mounts a home directory of its own in its own namespace."""

import pathlib
import shutil
import unittest

from hosts import HostsCase

WARNING = "have no shared secret"


class Homes(HostsCase):
    def setUp(self):
        super().setUp()
        self.hosts("node1", "node2")

    def mounted(self, host, mount, name="home"):
        """Calls mount(host, source, home) with directories for this host. Returns the home and
        unmounts it at the end of the test."""
        source, home = self.folder / host.name / "source", self.folder / host.name / name
        source.mkdir(parents=True, exist_ok=True)
        home.mkdir()
        mount(host, source, home)
        self.addCleanup(host.run, "umount", str(home))
        return str(home)

    def start(self, job, homes):
        return [job.start(number, env={"HOME": home, "XDG_CONFIG_HOME": ""})
                for number, home in enumerate(homes, 1)]

    def assert_trusts_first(self, homes):
        job = self.cluster("2")
        nodes = self.start(job, homes)
        job.round(2)
        first, second = job.finish(*nodes)
        self.assertEqual(first.err.count(WARNING), 1, first.err)
        self.assertEqual(second.said, "")

    def test_a_container_without_a_volume(self):
        """Its own layer is an overlay. A token would be lost with it, so none is made."""
        def overlay(host, source, home):
            host.run("mount", "-t", "tmpfs", "none", str(source))
            for name in ("lower", "upper", "work"):
                host.run("mkdir", str(source / name))
            options = ",".join((f"lowerdir={source}/lower", f"upperdir={source}/upper",
                                f"workdir={source}/work"))
            host.run("mount", "-t", "overlay", "overlay", "-o", options, str(home))
        homes = [self.mounted(host, overlay) for host in self.net.hosts]
        self.assert_trusts_first(homes)
        for host, home in zip(self.net.hosts, homes):
            self.assertEqual(host.run("find", home, "-name", "token"), "")

    def test_a_user_without_a_home(self):
        for homes in (("/proc/nobody", "/proc/nobody"), ("", "")):
            with self.subTest(homes):
                self.assert_trusts_first(homes)

    def test_a_container_and_a_machine(self):
        self.assert_trusts_first((str(self.folder), "/proc/nobody"))
        self.assert_trusts_first(("/proc/nobody", str(self.folder)))

    @unittest.skipUnless(shutil.which("bindfs") and pathlib.Path("/dev/fuse").exists(),
                         "needs bindfs and /dev/fuse for a home that is not local")
    def test_a_home_on_a_server_is_a_common_secret_or_a_refusal(self):
        def own(host, source, home):
            host.run("bindfs", str(source), str(home))

        def common(host, _source, home):
            host.run("bindfs", str(self.folder / "node1" / "source"), str(home))
        job = self.cluster("2")
        for node in self.start(job, [self.mounted(host, own) for host in self.net.hosts]):
            ended = node.end()
            self.assertEqual(ended.code, 2, ended.err)
            self.assertIn("the tokens differ", ended.err)
        job = self.cluster("2")
        nodes = self.start(job, [self.mounted(host, common, "common") for host in self.net.hosts])
        job.round(2)
        for ended in job.finish(*nodes):
            self.assertEqual(ended.said, "")


class OneHost(HostsCase):
    def test_agents_on_one_host_are_no_strangers(self):
        """They have no token, but only this user and root may connect on the host."""
        self.hosts("node1")
        job = self.cluster("2")
        nodes = [job.start(1, label=label, env={"HOME": "/proc/nobody", "XDG_CONFIG_HOME": ""})
                 for label in ("one", "two")]
        job.round(2)
        for ended in job.finish(*nodes):
            self.assertEqual(ended.said, "")
