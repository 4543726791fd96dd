# SPDX-License-Identifier: Apache-2.0
"""The channel between workers and their agent: which processes may use it, what happens to their
messages, how liars and floods affect other workers, and what subscribers receive, in which order,
on all nodes."""

import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import unittest

from harness import MUSTER, JobCase, environment_without
from nodes import LONG_LEASE, NodesCase
from test_events import events_of

PUPPET = os.environ["MUSTER_CHANNEL_PUPPET"]
WORKER = str(pathlib.Path(__file__).with_name("channel_worker.py"))


class ChannelCase(JobCase):
    def setUp(self):
        super().setUp()
        self.here = self.folder / "channel"
        self.here.mkdir(mode=0o777)
        self.env = {**os.environ, "CHANNEL_DIR": str(self.here), "PYTHONDONTWRITEBYTECODE": "1"}

    def heard(self, **match):
        """The lines with these values that workers have recorded."""
        path = self.here / "heard"
        lines = path.read_text().splitlines() if path.exists() else []
        found = [json.loads(line) for line in lines]
        return [one for one in found if all(one.get(key) == match[key] for key in match)]

    def args(self, mode, ranks=2, options=()):
        return ["--nproc-per-node", str(ranks), "--log-dir", self.folder / "logs", *options,
                WORKER, mode]

    def run_mode(self, mode, ranks=2, options=(), code=0):
        ended = self.run_job(*self.args(mode, ranks, options), env=self.env, code=code)
        return ended

    def events(self, name):
        folder, = (self.folder / "logs").iterdir()
        return [event for event in events_of(folder) if event["event"] == name]

    def assert_one_warning(self, ended, rank, text):
        lines = [line for line in ended.err.splitlines() if f"rank {rank} " in line]
        self.assertEqual(len(lines), 1, ended)
        self.assertIn(text, lines[0])


class OneNode(ChannelCase):
    def test_the_first_frame_says_who_the_worker_is_and_the_epoch_grows_with_a_restart(self):
        self.run_mode("greet", ranks=3, options=["--max-restarts", "1"])
        for epoch in (1, 2):
            found = {one["rank"]: one["hello"] for one in self.heard(epoch=str(epoch))}
            self.assertEqual(found, {rank: {"type": "hello", "version": 1, "epoch": epoch,
                                            "rank": rank, "local_rank": rank}
                                     for rank in range(3)})

    def test_what_workers_say_is_in_the_events_and_what_is_wrong_on_stderr(self):
        ended = self.run_mode("talk")
        told = {event["rank"]: event for event in self.events("worker_event")}
        self.assertEqual({rank: event["data"] for rank, event in told.items()},
                         {rank: {"saved": rank, "text": "a\x1b[2J"} for rank in (0, 1)})
        sick, = self.events("worker_unhealthy")
        # It claimed to be rank 0, but is treated as the rank that it is.
        self.assertEqual((sick["rank"], sick["local_rank"], sick["why"]), (1, 1, "loss is nan"))
        self.assertEqual([event["rank"] for event in self.events("worker_healthy")], [1])
        self.assertEqual(sorted(event["rank"] for event in self.events("worker_ready")), [0, 1])
        self.assertEqual(ended.err, "muster: warning: rank 1 reports that it is unhealthy: "
                                    "loss is nan\n")

    def test_what_a_worker_says_last_is_of_its_own_round(self):
        self.run_mode("last_words", ranks=1, options=["--max-restarts", "1"])
        told = [(event["round"], event["data"]) for event in self.events("worker_event")]
        self.assertEqual(told, [*((1, number) for number in range(1200)), (2, "well")])

    def test_children_and_orphans_speak_for_their_worker(self):
        # An orphan belongs to its worker through its group. If it leaves the group too, it belongs
        # to no worker.
        ended = self.run_mode("relatives")
        for rank in (0, 1):
            first = {one["who"]: one["first"] for one in self.heard(rank=rank) if "first" in one}
            self.assertEqual(first["child"]["rank"], rank, ended)
            self.assertEqual(first["orphan"]["rank"], rank, ended)
            self.assertEqual(first["stranger"]["type"], "refused", ended)
        self.assertEqual(ended.err, "")

    def test_a_descendant_of_a_worker_may_outlive_the_job(self):
        for signo, code in ((signal.SIGTERM, 143), (signal.SIGKILL, 137)):  # SIGKILL: the agent
            with self.subTest(signo=signo):
                job = self.job(*self.args("outlive", ranks=1, options=["--shutdown-timeout=1"]),
                               env=self.env)
                self.wait_for("channel/left")
                if signo == signal.SIGTERM:
                    job.kill(signo)
                else:
                    os.kill(job.agent(), signo)
                ended = self.wait_for_exit(job, code)
                outliving, = {one["pid"] for one in self.heard(who="outliving")}
                self.addCleanup(os.kill, outliving, signal.SIGKILL)
                self.assertEqual(job.pids(), [outliving])
                self.assertNotIn(str(outliving), ended.err)
                for path in self.here.iterdir():
                    path.unlink()

    def agent_socket(self, job):
        """As workers of this job were notified."""
        self.wait_for("channel/up1.0")
        pid = self.heard(rank=0)[0]["pid"]
        environ = pathlib.Path(f"/proc/{pid}/environ").read_text().split("\0")
        return next(line.split("=", 1)[1] for line in environ if line.startswith("MUSTER_AGENT="))

    def ask(self, name):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(60)
            sock.connect("\0" + name)
            creds = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            data = b""
            while piece := sock.recv(4096):
                data += piece
        return struct.unpack("3i", creds)[0], [json.loads(line) for line in data.splitlines()]

    def test_a_process_of_the_same_user_that_is_no_descendant_is_refused(self):
        job = self.job(*self.args("subscribe"), env=self.env)
        listener, frames = self.ask(self.agent_socket(job))
        self.assertEqual(listener, job.agent())
        self.assertEqual([frame["type"] for frame in frames], ["refused"])
        job.kill(signal.SIGTERM)
        ended = job.end()
        self.assertNotIn("channel", ended.err)

    @unittest.skipIf(os.geteuid() != 0, "only root can become another user")
    def test_another_user_is_refused_although_it_is_below_a_worker(self):
        self.here.chmod(0o777)
        ended = self.run_mode("another_user", ranks=1)
        said = json.loads(ended.out)
        self.assertEqual((said["first"]["type"], said["rest"]), ("refused", []))

    def test_a_flood_costs_the_others_nothing(self):
        ended = self.run_mode("flood")
        self.assertEqual([event["data"] for event in self.events("worker_event")],
                         ["in the middle of it"])
        self.assert_one_warning(ended, 0, "")
        sent, = [one["sent"] for one in self.heard(rank=0) if "sent" in one]
        # The agent limited it: the kernel's buffer, the first thousand frames and the permitted
        # rate.
        self.assertLess(sent, 4 << 20)

    def test_what_is_no_frame_ends_its_connection_with_one_warning_and_nothing_else(self):
        ended = self.run_mode("lies")
        for rank in (0, 1):
            answers = [one["heard"] for one in self.heard(rank=rank) if "heard" in one]
            self.assertEqual(len(answers), 6)
            # If bytes are left unread, the kernel may cut off the answer.
            types = {frame["type"] for answer in answers for frame in answer}
            self.assertEqual(types, {"refused"})
            self.assert_one_warning(ended, rank, "its connection is closed")
        self.assertEqual([(event["rank"], event["data"])
                          for event in self.events("worker_event")], [(1, "still here")])

    def test_one_worker_has_so_many_connections(self):
        ended = self.run_mode("many", ranks=1)
        kinds, = [one["kinds"] for one in self.heard()]
        self.assertEqual(kinds, ["hello"] * 16 + ["refused"] * 4)
        self.assert_one_warning(ended, 0, "has more than 16 connections to muster")

    def test_a_launcher_inside_of_a_worker_has_a_channel_of_its_own(self):
        script = self.executable("#!/bin/sh\necho outer $MUSTER_AGENT\n"
                                 f"exec {MUSTER} sh -c 'echo inner $MUSTER_AGENT'\n")
        ended = self.run_job("--no-python", script, env=self.env, code=0)
        names = dict(line.split() for line in ended.out.splitlines())
        self.assertEqual(set(names), {"outer", "inner"})
        self.assertNotEqual(names["outer"], names["inner"])

    def test_no_descriptor_reaches_the_workers(self):
        ended = self.run_job("--no-python", "sh", "-c", "ls -l /proc/$$/fd", env=self.env, code=0)
        self.assertNotIn("socket", ended.out)
        self.assertNotIn("muster-progress", ended.out)


class Library(ChannelCase):
    """The shared library, in C++ and in C."""

    def run_puppet(self, mode, *words, ranks=1, code=0, env=None):
        ended = self.run_job("--nproc-per-node", str(ranks), "--log-dir", self.folder / "logs",
                             "--no-python", PUPPET, mode, *words, env=env or self.env, code=code)
        return ended.out

    def test_what_a_worker_says_is_heard(self):
        self.assertEqual(self.run_puppet("tell"),
                         "epoch 1 1 numbers 2 told 4 4 wrong 0 stopping 0 0\n")
        self.assertEqual([event["data"] for event in self.events("worker_event")],
                         [{"from": "c++"}, ["c"]])
        self.assertEqual([event["why"] for event in self.events("worker_unhealthy")],
                         ["hot", "cold"])
        self.assertEqual(len(self.events("worker_ready")), 1)

    def test_the_feed(self):
        pipe = self.folder / "all-follow"
        os.mkfifo(pipe)
        out = self.run_puppet("follow", str(pipe), ranks=3, code=7)
        self.assertEqual(sorted(out.splitlines()),
                         [f"rank {rank} gone 1 1 stopping 1 1" for rank in (0, 2)])

    def test_a_forked_child_and_threads(self):
        self.assertEqual(self.run_puppet("fork"), "child 0\n")
        self.assertEqual([event["data"] for event in self.events("worker_event")],
                         ["parent", "child"] + ["thread"] * 40)

    def test_outside_of_muster_nothing_happens(self):
        env = environment_without("MUSTER_AGENT", "MUSTER_EPOCH")
        done = subprocess.run([PUPPET, "tell"], env=env, check=True, text=True,
                              stdout=subprocess.PIPE, timeout=60)
        self.assertEqual(done.stdout, "epoch 0 0 numbers 0 told 0 0 wrong 0 stopping 0 0\n")


class ManyNodes(ChannelCase, NodesCase):
    def feed(self, rank, epoch):
        """What one worker received in one round, in order."""
        return [one["frame"] for one in self.heard(rank=rank, epoch=str(epoch))]

    def wait_up(self, epoch, ranks):
        self.wait_for(*(f"channel/up{epoch}.{rank}" for rank in ranks))

    def start(self, nnodes, count, *options):
        job = self.cluster(nnodes, conf=LONG_LEASE, options=["--max-restarts", 3, *options])
        nodes = job.start_all(count, nproc=2, env=self.env, program=[WORKER, "subscribe"])
        self.wait_up(1, range(2 * count))
        return job, nodes

    def test_a_death_is_heard_on_all_nodes_before_the_stop_and_the_next_round(self):
        job, nodes = self.start("2", 2)
        (self.here / "last2").touch()
        victim = self.heard(rank=3, epoch="1")[0]
        os.kill(victim["pid"], signal.SIGKILL)
        job.ends(*nodes)
        for rank in (0, 1, 2):
            feed = self.feed(rank, 1)
            self.assertEqual([frame["type"] for frame in feed][:2], ["round", "gone"], feed)
            self.assertEqual(feed[-1]["type"], "stop", feed)
            gone = [frame for frame in feed if frame["type"] == "gone"]
            first = gone[0]
            self.assertEqual((first["epoch"], first["rank"], first["count"], first["failed"]),
                             (1, 3, 1, True))
            self.assertIn("SIGKILL", first["why"])
            self.assertEqual(len({frame["rank"] for frame in gone}), len(gone), "told twice")
            self.assertIn("rank 3", feed[-1]["why"])
        for rank in range(4):
            one, = self.feed(rank, 2)
            self.assertEqual((one["epoch"], one["rank"], one["world_size"], one["restarts"],
                              one["left"], one["joined"]), (2, rank, 4, 1, [], []))
            self.assertEqual((one["group_rank"], one["local_rank"]), divmod(rank, 2))
        stores = {(one["frame"]["store_address"], one["frame"]["store_port"])
                  for one in self.heard(epoch="2")}
        self.assertEqual(len(stores), 1)

    def test_a_lost_node_is_told_with_all_its_ranks_and_who_comes_for_it_with_theirs(self):
        job, nodes = self.start("1:2", 2)
        (self.here / "last3").touch()
        nodes[1].kill_all()
        self.wait_up(2, (0, 1))
        for rank in (0, 1):
            gone, = [frame for frame in self.feed(rank, 1) if frame["type"] == "gone"]
            self.assertEqual((gone["rank"], gone["count"]), (2, 2))
            now = self.feed(rank, 2)[0]
            self.assertEqual((now["world_size"], now["joined"]), (2, []))
            self.assertEqual([(one["rank"], one["count"]) for one in now["left"]], [(2, 2)])
        new = job.start(2, nproc=2, env=self.env, program=[WORKER, "subscribe"])
        job.ends(nodes[0], new)
        epochs = {one["epoch"] for one in self.heard() if one["frame"].get("epoch", 0) > 2}
        self.assertEqual(epochs, {"3"})
        for rank in (0, 1):
            self.assertNotIn("gone", [frame["type"] for frame in self.feed(rank, 2)])
            self.assertEqual([(one["rank"], one["count"])
                              for one in self.feed(rank, 3)[0]["joined"]], [(2, 2)])
        # The newcomer knows no earlier round.
        self.assertEqual(self.feed(2, 3)[0]["joined"], [])
