# SPDX-License-Identifier: Apache-2.0
"""--hosts through a real ssh and a real sshd, on loopback addresses of this machine. Needs root and
openssh-server; the server has its own keys and folder."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import unittest

from harness import JobCase, eventually, free_port, spawn
from test_remote import rsh_of

SSHD = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin")
HOSTS = "127.0.0.1:2,127.0.0.2:1"
ADDRESSES = range(1, 7)


@unittest.skipUnless(SSHD and shutil.which("ssh") and os.geteuid() == 0, "needs root and sshd")
class SshdCase(JobCase):
    settings = ""  # further lines of sshd_config

    def setUp(self):
        super().setUp()
        self.port = free_port()
        self.folder.chmod(0o700)
        for name in ("host_key", "key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
                            self.folder / name], check=True)
        shutil.copy(self.folder / "key.pub", self.folder / "authorized")
        (self.folder / "sshd_config").write_text(
            f"Port {self.port}\n{self.settings}"
            + "".join(f"ListenAddress 127.0.0.{n}\n" for n in ADDRESSES) +
            f"HostKey {self.folder}/host_key\nAuthorizedKeysFile {self.folder}/authorized\n"
            f"PermitRootLogin yes\nStrictModes no\nUsePAM no\nPidFile {self.folder}/pid\n")
        host_key = (self.folder / "host_key.pub").read_text()
        (self.folder / "known").write_text(
            "".join(f"[127.0.0.{n}]:{self.port} {host_key}" for n in ADDRESSES))
        pathlib.Path("/run/sshd").mkdir(exist_ok=True)  # sshd's, otherwise created by its service
        spawn(self, [SSHD, "-D", "-e", "-f", self.folder / "sshd_config"],
              stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        eventually(self.answers, "sshd answers")

    def answers(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def rsh(self, known="known"):
        return (f"ssh -F /dev/null -T -oBatchMode=yes -p {self.port} -i {self.folder}/key "
                f"-oUserKnownHostsFile={self.folder}/{known} -oLogLevel=ERROR")

    def hosts(self, *words, options=(), **kwargs):
        return self.job("--hosts", HOSTS, "--rsh", self.rsh(), *options, "--no-python", *words,
                        **kwargs)

    def long_job(self):
        job = self.hosts("sh", "-c", f"touch {self.folder}/up$RANK; exec sleep 600")
        self.wait_for("up0", "up1", "up2")
        return job


class Sshd(SshdCase):
    def test_a_world_of_two_machines_with_its_arguments_and_labels(self):
        ended = self.hosts("sh", "-c", 'echo "$RANK of $WORLD_SIZE: $1 $PWD"', "sh",
                           "it's \"$HOME\" `id`", options=["-l"], cwd=self.folder).end()
        self.assertEqual((ended.code, ended.said), (0, ""), ended)
        tail = f"it's \"$HOME\" `id` {self.folder}"
        self.assertEqual(sorted(ended.out.splitlines()), [
            f"[127.0.0.1:0]:0 of 3: {tail}", f"[127.0.0.1:1]:1 of 3: {tail}",
            f"[127.0.0.2:2]:2 of 3: {tail}"])

    def test_the_code_of_the_first_failure_comes_back(self):
        job = self.hosts("sh", "-c", "[ $RANK = 2 ] && exit 42; exec sleep 600")
        ended = self.wait_for_exit(job, 42)
        self.assertEqual(ended.err.count("rank 2 exited with code 42"), 1, ended)

    def test_ctrl_c_ends_all_of_it(self):
        job = self.long_job()
        job.kill(signal.SIGINT)
        self.wait_for_exit(job, 128 + signal.SIGINT)
        self.assert_nothing_left(job)

    def test_after_a_kill_of_the_launcher_nothing_is_left(self):
        job = self.long_job()
        self.kill_launcher(job)

    def test_after_a_kill_of_one_ssh_nothing_is_left(self):
        job = self.long_job()
        os.kill(rsh_of(job, "127.0.0.2"), signal.SIGKILL)
        ended = self.wait_for_exit(job, 69)
        self.assertIn("127.0.0.2: the connection broke", ended.err)
        self.assert_nothing_left(job)

    def test_a_host_that_is_not_known_is_one_line_and_no_question(self):
        ended = self.run_job("--hosts", "127.0.0.1", "--rsh", self.rsh("none"), "/bin/true")
        self.assertEqual((ended.code, ended.out), (69, ""), ended)
        self.assertRegex(ended.said, r"^muster: error: cannot reach 127\.0\.0\.1 with 'ssh .* "
                                     r"127\.0\.0\.1': Host key verification failed\.\n$")


class Refusing(SshdCase):
    """Like a jump host: sshd refuses connections while two others have not logged in."""
    settings = "MaxStartups 2:100:2\n"

    def assert_all_are_reached(self, machines):
        ended = self.run_job("--hosts", f"127.0.0.[1-{machines}]:1", "--rsh", self.rsh(),
                             "--hosts-timeout=120", "--no-python", "sh", "-c", "echo $RANK", code=0)
        self.assertEqual(sorted(map(int, ended.out.split())), list(range(machines)))

    def test_machines_whose_connections_are_refused_at_first_are_reached(self):
        self.assert_all_are_reached(6)


class Throttling(Refusing):
    """sshd's default rate limit, but deterministic: it refuses the eleventh connection, and so
    on."""
    settings = "MaxStartups 10:100:10\n"

    def rsh(self, known="known"):  # sshd listens on at most 16 addresses
        return super().rsh(known) + (" -oHostName=127.0.0.1 "
                                     f"-oHostKeyAlias=[127.0.0.1]:{self.port}")

    def test_machines_whose_connections_are_refused_at_first_are_reached(self):
        self.assert_all_are_reached(32)


class SharedConnections(SshdCase):
    """The user's ~/.ssh/config shares connections: ControlMaster auto, ControlPersist."""

    def setUp(self):
        super().setUp()
        (self.folder / "config").write_text(
            "Host *\n  ControlMaster auto\n  ControlPersist 600\n"
            f"  ControlPath {self.folder}/master-%h\n")
        self.addCleanup(self.stop_masters)

    def rsh(self, known="known"):
        return super().rsh(known).replace("/dev/null", str(self.folder / "config"))

    def ssh(self, *words):
        """What the user types in another terminal. Returns its exit code."""
        return subprocess.run([*self.rsh().split(), *words], check=False, timeout=60,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode

    def stop_masters(self):
        for path in self.folder.glob("master-*"):
            self.ssh("-O", "exit", path.name.removeprefix("master-"))

    def assert_users_connection_outlives(self, job):
        job.kill(signal.SIGINT)
        self.assertEqual(job.end().code, 128 + signal.SIGINT)
        self.assert_nothing_left(job)
        self.assertEqual(self.ssh("-O", "check", "127.0.0.2"), 0)

    def test_a_connection_that_the_user_opens_during_the_job_outlives_it(self):
        job = self.long_job()
        self.assertEqual(self.ssh("127.0.0.2", "true"), 0)
        self.assert_users_connection_outlives(job)

    def test_a_connection_that_the_job_shares_outlives_it(self):
        self.assertEqual(self.ssh("127.0.0.2", "true"), 0)
        self.assert_users_connection_outlives(self.long_job())
