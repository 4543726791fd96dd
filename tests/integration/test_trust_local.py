# SPDX-License-Identifier: Apache-2.0
"""Other users of the same machine: which parts of a job they can reach, and which ones the job's
own user can. The others are children of this test that have changed their user id, so it needs
root."""

import contextlib
import json
import os
import socket
import struct
import unittest

from harness import PUPPET, children, eventually, free_port
from nodes import NodesCase
from store_process import StoreProcess
from test_nodes_ports import listening

NOBODY = 65534
SOMEBODY = 54321  # another one; need not be in /etc/passwd
GREETING = bytes.fromhex("00CEF7853C")
PING, PONG = GREETING + bytes.fromhex("0D01020304"), bytes.fromhex("01020304")
COUNT_KEYS = GREETING + b"\x07"
NODE_PREAMBLE = b"\xA7MUSTER\x01\x00"
TIMEOUT = 60.0  # reached only if something is broken


# No token is available there, so the user of a connection decides.
NO_HOME = {"HOME": "/proc/nobody", "XDG_CONFIG_HOME": ""}


def text_of(text):
    return struct.pack("<q", len(text)) + text


SET_KEY = GREETING + b"\x01" + text_of(b"stolen") + text_of(b"yes")


def talk(place, data, size=64):
    """The server's answer; empty if it closes without one."""
    family = socket.AF_INET6 if ":" in place[0] else socket.AF_INET
    with socket.socket(family) as client:
        client.settimeout(TIMEOUT)
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            client.connect(place)
            client.sendall(data)
            return client.recv(size)
    return b""


def outward_address():
    """The address by which other machines reach this one, if there is one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        with contextlib.suppress(OSError):
            probe.connect(("192.0.2.1", 9))
            return [probe.getsockname()[0]]
    return []


def as_user(uid, work):
    """The result of work(), run in a child with this user id, as a JSON value."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            os.write(writer, json.dumps(work()).encode())
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as result:
        text = result.read()
    os.waitpid(child, 0)
    return json.loads(text)


def answer_to(uid, place, data):
    return bytes.fromhex(as_user(uid, lambda: talk(place, data).hex()))


@unittest.skipUnless(os.geteuid() == 0, "only root can become other users")
class OtherUsers(NodesCase):
    def worker(self, then=""):
        """A worker that reports its store's address, and exits when the test says so."""
        script = (f"{then} echo $MASTER_ADDR $MASTER_PORT > $DIR/place.new; "
                  "mv $DIR/place.new $DIR/place; exec $PUPPET wait-file $DIR/end")
        return self.by_rank(script)

    def place(self):
        self.wait_for("place")
        address, port = (self.folder / "place").read_text().split()
        return address, int(port)

    def finish(self, job, code=0):
        (self.folder / "end").touch()
        ended = self.wait_for_exit(job, code)
        return ended

    def test_the_store_of_a_job_is_closed_to_them_and_says_so_once(self):
        job = self.job(*self.worker())
        place = self.place()
        for data in (PING, SET_KEY, COUNT_KEYS, b"\x00", NODE_PREAMBLE, b"GET / HTTP/1.1\r\n\r\n"):
            self.assertEqual(answer_to(NOBODY, place, data), b"", data)
        self.assertEqual(talk(place, COUNT_KEYS), struct.pack("<q", 0))
        self.assertEqual(talk(place, PING), PONG)
        ended = self.finish(job)
        self.assertRegex(ended.err, r"\Amuster: warning: refused the connection from 127\.0\.0\.1:"
                         r"\d+: it belongs to user 65534, but only root may connect[^\n]*\n\Z")

    def test_a_job_of_a_user_is_open_to_that_user_and_to_root_alone(self):
        self.folder.chmod(0o777)
        if not as_user(SOMEBODY, lambda: os.access(PUPPET, os.X_OK)):
            self.skipTest("other users cannot run what lies in the build folder")
        job = self.job(*self.worker(), user=SOMEBODY, group=SOMEBODY, extra_groups=[],
                       env={**os.environ, "TMPDIR": str(self.folder), "HOME": str(self.folder)})
        place = self.place()
        self.assertEqual(answer_to(SOMEBODY, place, PING), PONG)
        self.assertEqual(talk(place, PING), PONG)
        self.assertEqual(answer_to(NOBODY, place, PING), b"")
        self.assertEqual(answer_to(SOMEBODY + 1, place, PING), b"")
        ended = self.finish(job)
        self.assertIn("it belongs to user 65534, but only user 54321 and root may connect on "
                      "this host; run it as user 54321\n", ended.err)

    def test_who_has_the_key_shows_its_memory_to_nobody_and_dumps_no_core(self):
        self.folder.chmod(0o777)
        if not as_user(SOMEBODY, lambda: os.access(PUPPET, os.X_OK)):
            self.skipTest("other users cannot run what lies in the build folder")
        home = self.folder / "home"
        home.mkdir(mode=0o700)
        os.chown(home, SOMEBODY, SOMEBODY)
        how = {"user": SOMEBODY, "group": SOMEBODY, "extra_groups": [],
               "env": {**os.environ, "TMPDIR": str(home), "XDG_CONFIG_HOME": str(home)}}

        def owner(pid):  # root, if the process may neither be inspected nor dumped
            return os.stat(f"/proc/{pid}/environ").st_uid

        alone = self.job(*self.worker(), **how)
        self.place()
        self.assertEqual(owner(alone.agent()), SOMEBODY)  # it has no key
        self.finish(alone)
        (self.folder / "end").unlink()
        (self.folder / "place").unlink()
        node = ["--nnodes=2", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{free_port()}"]
        worker = self.worker()
        jobs = [self.job(*node, *worker, **how) for _ in range(2)]
        self.place()
        for job in jobs:
            self.assertEqual(owner(job.agent()), 0)
            eventually(lambda job=job: [owner(pid) for pid in children(job.agent())] == [SOMEBODY],
                       "a worker that may be looked into")  # once it has executed the program
        (self.folder / "end").touch()
        self.assertEqual([job.end().code for job in jobs], [0, 0])

    def test_who_sends_and_is_gone_at_once_changes_nothing(self):
        job = self.job(*self.worker())
        place = self.place()

        def hit_and_run():
            for linger in (0, 1) * 20:
                with socket.socket() as client:
                    client.connect(place)
                    if linger:  # a reset, after which the port is free immediately
                        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                          struct.pack("ii", 1, 0))
                    client.sendall(SET_KEY)

        as_user(NOBODY, hit_and_run)
        self.assertEqual(talk(place, COUNT_KEYS), struct.pack("<q", 0))
        self.finish(job)

    def test_a_worker_that_has_given_up_its_user_still_has_its_store(self):
        # Like `gosu` or `su` in a worker's script, under an agent that runs as root.
        program = self.python(f"""
import os, socket, sys
os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})
client = socket.socket()
client.connect((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
client.sendall({PING!r})
sys.exit(0 if client.recv(64) == {PONG!r} else 3)
""")
        ended = self.run_job(program)
        self.assertEqual((ended.code, ended.err), (0, ""), ended)

    def test_the_doors_of_nodes_are_closed_to_them_and_the_job_goes_on(self):
        job, _, one = self.form("2", 2, env=NO_HOME)
        places = listening([node.agent() for node in job.nodes])
        self.assertGreaterEqual(len(places), 3)  # the endpoint, a port of each node, the store
        for place in places:
            for data in (NODE_PREAMBLE, PING, b"\xA7"):
                self.assertEqual(answer_to(NOBODY, place, data), b"", (place, data))
        self.assertIn("it belongs to user 65534", job.nodes[0].err())
        job.order(one, 0, "exit 0")
        job.finish()

    def test_an_agent_of_another_user_cannot_join(self):
        job = self.cluster("1:2", conf="last_call_timeout=0.1")
        first = job.start(1, env=NO_HOME)
        job.round(1)
        args = job.launcher_args(2, conf="join_timeout=3", program=["--no-python", "/bin/true"])
        self.folder.chmod(0o777)
        if not as_user(NOBODY, lambda: os.access(PUPPET, os.X_OK)):
            self.skipTest("other users cannot run what lies in the build folder")
        self.run_job(*args, user=NOBODY, group=NOBODY, extra_groups=[],
                     env={**os.environ, "TMPDIR": str(self.folder),
                          "XDG_CONFIG_HOME": str(self.folder / "theirs")}, code=69)
        first.wait_for_text("refused the connection from 127.0.0.", "it belongs to user 65534")
        job.finish()

    def test_muster_store_is_closed_to_them_unless_it_is_told_otherwise(self):
        admitted = {(): {0}, ("--uid", "nobody"): {0, NOBODY},
                    ("--uid", str(SOMEBODY)): {0, SOMEBODY}, ("--open",): {0, NOBODY, SOMEBODY}}
        for options, users in admitted.items():
            with self.subTest(options=options), StoreProcess("--bind", "::", *options) as store:
                for address in ("127.0.0.1", "127.0.0.8", "::1", *outward_address()):
                    for user in (0, NOBODY, SOMEBODY):
                        expected = PONG if user in users else b""
                        answer = answer_to(user, (address, store.port), PING)
                        self.assertEqual(answer, expected, (address, user))


class Listening(NodesCase):
    """Only requested sockets listen, and only on the requested addresses."""

    def place_told(self):
        self.wait_for("place")
        address, port = (self.folder / "place").read_text().split()
        return address, int(port)

    def places_of_one_node(self, *options):
        script = ("echo $MASTER_ADDR $MASTER_PORT > $DIR/place.new; mv $DIR/place.new $DIR/place; "
                  "exec $PUPPET wait-file $DIR/end")
        job = self.job(*self.by_rank(script, script, options=options))
        told = self.place_told()
        found = listening(job.pids())
        (self.folder / "end").touch()
        self.assertEqual(job.end().code, 0)
        return told, found

    def test_one_node_listens_for_its_workers_on_loopback_alone(self):
        told, found = self.places_of_one_node()
        self.assertEqual(found, {told})
        self.assertEqual(told[0], "127.0.0.1")

    def test_one_node_listens_at_the_address_that_was_named(self):
        told, found = self.places_of_one_node("--local-addr=127.0.0.7", "--ports=2")
        self.assertEqual(found, {told})
        self.assertEqual(told[0], "127.0.0.7")

    def test_two_nodes_listen_at_their_own_addresses_and_the_endpoint(self):
        job, _, one = self.form("2", 2)
        endpoint = ("127.0.0.1", int(job.endpoint.rpartition(":")[2]))
        store = ("127.0.0.1", int(one.env[0]["MASTER_PORT"]))
        first, second = (listening(node.pids()) for node in job.nodes)
        self.assertLessEqual({endpoint, store}, first)
        self.assertEqual({address for address, _ in first}, {"127.0.0.1"})
        self.assertEqual(len(first), 3)  # and the node's own
        self.assertEqual([address for address, _ in second], ["127.0.0.2"])
        job.finish()

    def test_muster_store_listens_where_it_is_told(self):
        for bind in ("127.0.0.1", "127.0.0.9", "::1"):
            with StoreProcess("--bind", bind) as store:
                self.assertEqual(listening([store.process.pid]), {(bind, store.port)})
