# SPDX-License-Identifier: Apache-2.0
"""Agents prove to each other that they have the job's token. Agents with the same token work
together; one with a different token or none is refused with an error; an eavesdropper learns
nothing."""

import hashlib
import hmac
import os
import pathlib
import select
import shutil
import socket
import stat
import subprocess
import tempfile
import threading
import unittest

from harness import eventually, read
from nodes import NEVER, SHORT_LEASE, NodesCase, last_block

OTHER = "the tokens differ: is ~/.config shared?"
PREAMBLE = b"\xa7MUSTER\x0d\x00"
SEALED = b"\x02"
# A home on a container's own layer would not be used; shared memory is not such a layer.
MEMORY = "/dev/shm"


def introduction(job, sealed=True):
    name = job.encode()
    return PREAMBLE + bytes([sealed]) + len(name).to_bytes(2, "little") + name


def job_key(token, job):
    """HKDF-SHA256, limited to the bytes of one block."""
    secret = hmac.new(job.encode(), token.encode(), hashlib.sha256).digest()
    return hmac.new(secret, b"muster rendezvous 1\x01", hashlib.sha256).hexdigest()


class Proxy:
    """Forwards bytes between its clients and `there`, and records them. With a job it first
    introduces itself in the client's place."""

    def __init__(self, there, job=None):
        self.there, self.job = there, job
        self.up, self.down = b"", b""
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.sockets = [self.listener]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        try:
            while True:
                here, _ = self.listener.accept()
                there = socket.create_connection(self.there)
                self.sockets += [here, there]
                threading.Thread(target=self.carry, args=(here, there), daemon=True).start()
        except OSError:
            pass

    def carry(self, here, there):
        try:
            if self.job:
                there.sendall(introduction(self.job))
                assert receive(there, len(PREAMBLE) + 1) == PREAMBLE + SEALED
            while True:
                for one in select.select([here, there], [], [])[0]:
                    data = one.recv(65536)
                    if not data:
                        return
                    if one is here:
                        self.up += data
                    else:
                        self.down += data
                    (there if one is here else here).sendall(data)
        except (OSError, ValueError):
            pass
        finally:
            for one in (here, there):
                one.close()

    def close(self):
        self.listener.close()
        for one in self.sockets:
            one.close()


def receive(stream, size):
    data = b""
    while len(data) < size and (part := stream.recv(size - len(data))):
        data += part
    return data


class TrustAgents(NodesCase):
    def setUp(self):
        super().setUp()
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="muster_test_", dir=MEMORY))
        self.addCleanup(shutil.rmtree, self.home)
        # Otherwise it would take precedence over HOME.
        config = os.environ.pop("XDG_CONFIG_HOME", None)
        if config:
            self.addCleanup(os.environ.__setitem__, "XDG_CONFIG_HOME", config)

    def token(self, name="token", text="0123456789abcdef0123456789abcdef", mode=0o600):
        path = self.folder / name
        path.write_text(text + "\n")
        path.chmod(mode)
        return path

    def at_home(self, home=None):
        return {"env": {"HOME": str(home or self.home)}}

    def host_and_port(self, job):
        host, port = job.endpoint.rsplit(":", 1)
        return host, int(port)

    def proxy(self, *args):
        proxy = Proxy(*args)
        self.addCleanup(proxy.close)
        return proxy

    # -- agents with the same token --------------------------------------------------------------

    def test_nodes_that_share_a_home_need_nothing(self):
        job = self.cluster("3", conf=NEVER)
        nodes = [job.start(number, **self.at_home()) for number in (1, 2, 3)]
        self.assertEqual(sorted(job.round(3).nodes), ["n1", "n2", "n3"])
        path = self.home / ".config/muster/token"
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        self.assertEqual([each.name for each in path.parent.iterdir()], ["token"])
        token = path.read_text().strip()
        self.assertEqual(len(token), 64)
        for node in nodes:
            for pid in node.pids():
                self.assertNotIn(token, read(f"/proc/{pid}/environ"))
                self.assertNotIn(token, read(f"/proc/{pid}/cmdline"))
        for ended in job.finish(*nodes):
            self.assertEqual(ended.said, "")

    def test_the_death_of_a_node_is_survived(self):
        job, nodes, _ = self.form("2:3", 3, conf=SHORT_LEASE,
                                  options=["--token-file", self.token(), "--max-restarts", "2"])
        nodes[0].kill_all()  # which led the others
        self.assertEqual(sorted(job.round(2).nodes), ["n2", "n3"])
        job.start(4)
        job.round(3)
        job.finish(*job.running())

    def test_machines_of_hosts_need_no_shared_home(self):
        rsh = pathlib.Path(__file__).with_name("fake_rsh.py")
        script = (f"readlink /proc/self/fd/0 > {self.folder}/in$RANK; "
                  f"env > {self.folder}/env$RANK; touch {self.folder}/up$RANK; exec sleep 600")
        job = self.job("--hosts", "127.0.0.1,127.0.0.2", "--rsh", rsh, "--no-python", "sh", "-c",
                       script, env={**os.environ, "FAKE_RSH_DIR": str(self.folder),
                                    "HOME": str(self.home)})
        self.wait_for("up0", "up1")
        lines = [read(f"/proc/{pid}/cmdline").split("\0") for pid in job.pids()]
        told = [line for line in lines if "--token-file=/dev/stdin" in line]
        self.assertGreaterEqual(len(told), 2, lines)
        endpoint = next(word.split("=")[1] for word in told[0]
                        if word.startswith("--rdzv-endpoint="))
        for rank in (0, 1):
            self.assertEqual(read(self.folder / f"in{rank}").strip(), "/dev/null")
        made = {path.relative_to(self.home).parts[:3] for path in self.home.rglob("*")
                if path.is_file()}
        self.assertLessEqual(made, {(".local", "state", "muster")})  # rounds, and no token
        # A process to which the launcher gave no token is refused.
        name = next(word for word in told[0] if word.startswith("--rdzv-id="))
        stranger = self.run_job("--nnodes=2", "--rdzv-backend=c10d", name, "--token=none",
                                f"--rdzv-endpoint={endpoint}", "--local-addr=127.0.0.3", "true")
        self.assertEqual(stranger.code, 2, stranger)
        self.assertIn("this job needs a token", stranger.err)

    def test_a_job_of_one_node_touches_no_home(self):
        ended = self.run_job("--no-python", "true", env={**os.environ, "HOME": str(self.home)})
        self.assertEqual((ended.code, ended.err), (0, ""))
        self.assertEqual(list(self.home.iterdir()), [])

    def test_without_a_token_if_all_say_so(self):
        job, nodes, _ = self.form("2", 2, conf=NEVER, options=["--token=none"], **self.at_home())
        for ended in job.finish(*nodes):
            self.assertEqual(ended.said, "", "nobody else can connect to loopback")
        self.assertEqual(list(self.home.iterdir()), [])

    def test_a_home_that_cannot_be_written_to_is_no_error(self):
        job, nodes, _ = self.form("2", 2, conf=NEVER, **self.at_home("/proc/nobody"))
        job.finish(*nodes)

    def test_who_can_be_reached_without_a_token_warns_once(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(("192.0.2.1", 9))
            except OSError:
                self.skipTest("this machine has no address but loopback")
            address = probe.getsockname()[0]
        job, nodes, _ = self.form("2", 2, conf=NEVER, addresses=lambda number: address,
                                  options=["--token=none"])
        for ended in job.finish(*nodes):
            self.assertEqual(ended.err.count("anyone who can reach " + address), 1, ended)

    # -- agents with different tokens ------------------------------------------------------------

    def refuse(self, sentence, first, second):
        """Neither of two nodes waits for the other one, and both print what to do."""
        job = self.cluster("2", conf=NEVER)
        one = job.start(1, options=first)
        one.wait_for_text("1 of 2")
        wrong, waited = job.ends(job.start(2, label="wrong", options=second), one, code=2)
        self.assertIn(sentence, wrong.err)
        self.assertEqual(len(wrong.said.splitlines()), 1, wrong)
        self.assertEqual(waited.err.count(sentence), 1, waited)
        self.assertIn("refused node at 127.0.0.2", "".join(last_block(waited)))

    def test_another_token_ends_a_third_node_that_has_the_right_one(self):
        job = self.cluster("3", conf=NEVER)
        right = ["--token-file", self.token()]
        nodes = [job.start(number, options=right) for number in (1, 2)]
        nodes[0].wait_for_text("2 of 3")
        nodes.append(job.start(3, options=["--token-file", self.token("other", "f" * 32)]))
        for ended in job.ends(*nodes, code=2):
            self.assertIn(OTHER, ended.err)

    def test_another_token_ends_nothing_that_can_do_without_that_node(self):
        right = ["--token-file", self.token()]
        job = self.cluster("1:3", conf="last_call_timeout=0.1", options=right)
        first = job.start(1)
        one = job.round(1)
        job.ends(job.start(2, options=["--token-file", self.token("other", "f" * 32)]), code=2)
        first.wait_for_text("refused node at 127.0.0.2", OTHER)
        self.assertEqual([each.name for each in job.story.rounds()], [one.name])
        job.finish(first)

    def test_another_token(self):
        self.refuse(OTHER, ["--token-file", self.token()],
                    ["--token-file", self.token("other", "f" * 32)])

    def test_a_node_without_a_token(self):
        self.refuse("this job needs a token", ["--token-file", self.token()], ["--token=none"])

    def test_a_node_with_a_token_in_a_job_without(self):
        self.refuse("this job runs without a token", ["--token=none"],
                    ["--token-file", self.token()])

    def test_files_that_cannot_be_relied_on(self):
        secret = "qwertyuiop1234567890"
        for path, why in ((self.token("open", secret, 0o644), "other users can access it"),
                          (self.token("short", secret[:15]), "15 bytes"),
                          (self.folder, "not a regular file"),
                          (self.folder / "none", "No such file")):
            with self.subTest(why=why):
                ended = self.run_job("--nnodes=2", "--rdzv-backend=c10d", "--token-file", path,
                                     "--rdzv-endpoint=127.0.0.1:1", "true", code=2)
                self.assertIn(why, ended.err)
                self.assertEqual(len(ended.err.splitlines()), 1, ended)
                self.assertNotIn(secret[:15], ended.err)

    def test_a_token_on_the_command_line_is_refused_and_not_repeated(self):
        for how in ({}, {"env": {**os.environ, "MUSTER_TOKEN": "qwertyuiop"}}):
            args = [] if how else ["--token=qwertyuiop"]
            ended = self.run_job(*args, "true", **how, code=2)
            self.assertNotIn("qwertyuiop", ended.err)
            self.assertIn("--token-file", ended.err)

    # -- eavesdroppers --------------------------------------------------------------------------

    def record(self, options):
        """All bytes between two nodes until their workers have met, in each direction."""
        job = self.cluster("2", conf=NEVER, options=["--role", "nameofarole", *options])
        first = job.start(1)
        eventually(job.is_hosted, "the first node hosts")
        proxy = self.proxy(self.host_and_port(job))
        second = job.start(2, endpoint=proxy.address)
        job.round(2)
        job.finish(first, second)
        return job, proxy

    def test_what_is_recorded_shows_no_member_and_no_setting(self):
        told = [b"nameofarole", b"c10d", b"127.0.0.2"]
        _, proxy = self.record(["--token=none"])
        both, name = proxy.up + proxy.down, socket.gethostname().encode()
        for some in (name, *told):  # so that this test can see them
            self.assertIn(some, both)
        # A name of two letters occurs in encrypted bytes by chance, its length before it does not.
        told.append(both[both.index(name) - 4:both.index(name)] + name)
        job, proxy = self.record(["--token-file", self.token()])
        self.assertTrue(proxy.up.startswith(introduction(job.name)))
        self.assertTrue(proxy.down.startswith(PREAMBLE + SEALED))
        for some in told:
            self.assertNotIn(some, proxy.up + proxy.down)

    def test_what_was_recorded_cannot_be_said_again(self):
        options = ["--token-file", self.token()]
        job = self.cluster("2:3", conf="last_call_timeout=0.5", options=options)
        first = job.start(1)
        eventually(job.is_hosted, "the first node hosts")
        proxy = self.proxy(self.host_and_port(job))
        second = job.start(2, endpoint=proxy.address)
        one = job.round(2)
        for recorded in (proxy.up, proxy.down, proxy.up[:-1], introduction(job.name)):
            with socket.create_connection(self.host_and_port(job)) as stranger:
                stranger.settimeout(30)
                stranger.sendall(recorded)
                while stranger.recv(4096):
                    pass
        self.assertEqual([each.name for each in job.story.rounds()], [one.name])
        job.finish(first, second)

    @unittest.skipUnless(shutil.which("openssl"), "there is no openssl")
    def test_another_tls_client_is_let_in_with_the_key_only(self):
        path = self.token()
        job, *_ = self.form("2", 2, conf=NEVER, options=["--token-file", path])
        right = job_key(path.read_text().strip(), job.name)
        wrong = job_key("another token", job.name)
        for key, name, code in ((right, job.name, 0), (wrong, job.name, 1), (right, "other", 1)):
            proxy = self.proxy(self.host_and_port(job), job.name)
            done = subprocess.run(
                ["openssl", "s_client", "-connect", proxy.address, "-tls1_3", "-psk_identity",
                 name, "-psk", key, "-ciphersuites", "TLS_AES_128_GCM_SHA256"],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
            said = done.stdout + done.stderr
            self.assertEqual("Reused, TLSv1.3" in said, code == 0, said)
            self.assertEqual("alert" in said, code != 0, said)
        job.finish()
