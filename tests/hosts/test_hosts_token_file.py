# SPDX-License-Identifier: Apache-2.0
"""Token files that a job cannot choose freely: mounts whose modes cannot be changed, pod secrets,
and homes that belong to another user. Two hosts with one folder each; user 12345, as clusters
assign to containers."""

import os
import pathlib
import shutil
import tempfile

from hosts import HostsCase

MEMORY = "/dev/shm"
SECRET = "0123456789abcdef0123456789abcdef\n"
USER, GROUP = 12345, 2000
WARNING = "have no shared secret"


class TokenFile(HostsCase):
    def setUp(self):
        super().setUp()
        self.hosts("node1", "node2")
        self.folders = pathlib.Path(tempfile.mkdtemp(prefix="muster_test_", dir=MEMORY))
        self.folders.chmod(0o755)
        self.addCleanup(shutil.rmtree, self.folders)

    def secret(self, number, mode, owner=0, group=0):
        """The same secret in a file on this host."""
        path = self.folders / f"token{number}"
        path.write_text(SECRET)
        os.chown(path, owner, group)
        path.chmod(mode)
        return path

    def start(self, job, number, *options, home="/", user=0, groups=()):
        """As this user, with a log folder that everyone may use."""
        for folder in (self.folder, job.folder, job.folder / "beats", job.folder / "do"):
            folder.chmod(0o777)
        (job.folder / "events").chmod(0o666)
        as_user = ["setpriv", f"--reuid={user}", f"--regid={user}",
                   f"--groups={','.join(map(str, groups))}" if groups else "--clear-groups"]
        prefix = [*self.net.hosts[number - 1].prefix, *as_user]
        return job.start(number, options=options, popen={"prefix": prefix},
                         env={"HOME": str(home), "XDG_CONFIG_HOME": "", "TMPDIR": "/tmp"})

    def assert_forms(self, job, nodes):
        job.round(2)
        return [ended.said for ended in job.finish(*nodes)]

    def assert_trusts_first(self, job, nodes):
        first, second = self.assert_forms(job, nodes)
        self.assertEqual(first.count(WARNING), 1, first)
        self.assertEqual(second, "")

    def test_a_mount_whose_modes_cannot_be_changed(self):
        job = self.cluster("2")
        nodes = [self.start(job, number, f"--token-file={self.secret(number, 0o777)},shared")
                 for number in (1, 2)]
        self.assertEqual(self.assert_forms(job, nodes), ["", ""])
        alone = self.cluster("2")
        ended = self.start(alone, 1, f"--token-file={self.secret(1, 0o777)}").end()
        self.assertEqual(ended.code, 2, ended.err)
        self.assertIn("other users can access it (mode 0777)", ended.err)
        self.assertIn("pass FILE,shared", ended.err)

    def test_the_home_of_another_user_is_no_home(self):
        for home, mode in ((self.folders / "root", 0o700), (self.folders / "open", 0o755)):
            with self.subTest(mode=oct(mode)):
                home.mkdir(mode=mode)
                home.chmod(mode)
                config = home / ".config" / "muster"  # root's own token, which we may not read
                config.mkdir(parents=True)
                (config / "token").write_text(SECRET)
                (config / "token").chmod(0o600)
                config.chmod(0o700)
                job = self.cluster("2")
                nodes = [self.start(job, number, home=home, user=USER) for number in (1, 2)]
                self.assert_trusts_first(job, nodes)

    def test_a_home_that_root_keeps_closed_to_writing(self):
        home = self.folders / "readable"
        home.mkdir(mode=0o755)
        job = self.cluster("2")
        nodes = [self.start(job, number, home=home, user=USER) for number in (1, 2)]
        self.assert_trusts_first(job, nodes)
        self.assertEqual(list(home.iterdir()), [])

    def test_a_secret_of_a_pod_that_is_not_root(self):
        """As mounted by Kubernetes: with fsGroup, mode 0440 for root and the group. Without
        fsGroup, 0400 permits only root."""
        job = self.cluster("2")
        nodes = [self.start(job, number, f"--token-file={self.secret(number, 0o440, 0, GROUP)}",
                            user=USER, groups=(GROUP,)) for number in (1, 2)]
        self.assertEqual(self.assert_forms(job, nodes), ["", ""])
        for mode in (0o400, 0o444):
            alone = self.cluster("2")
            ended = self.start(alone, 1, f"--token-file={self.secret(1, mode)}", user=USER).end()
            self.assertEqual(ended.code, 2, ended.err)
            self.assertIn("set fsGroup and defaultMode: 0440", ended.err)
