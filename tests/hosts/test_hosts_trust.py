# SPDX-License-Identifier: Apache-2.0
"""A job on two hosts, and strangers: a third host that knows everything except the token and has
recorded the nodes' traffic, and another user on the first host. Nothing that they do is accepted,
and the job runs as if they did not exist."""

import json
import os
import pathlib
import signal
import subprocess
import sys

from harness import eventually, free_port, read, spawn
from hosts import HostsCase
from recording import Recorder

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "attacker"))
from attacker import doors_of  # noqa: E402

ATTACKER = pathlib.Path(__file__).resolve().parent / "attacker"
NEVER = "last_call_timeout=500"
NOBODY = 65534
PER_DOOR = 631  # attacks on each port of an agent
PER_SESSION = 15  # and for each connection recorded there
PER_STORE = 49
ATTACKS_WITHIN = 240
GREETINGS = 8  # from the rogue


class Trust(HostsCase):
    def start_job(self, shared_home=True):
        """The first round of a two-node job; a stranger has recorded the traffic of one node."""
        self.hosts("node1", "node2", "stranger")
        os.chmod(self.folder, 0o755)
        self.job = self.cluster("2", conf=NEVER)
        self.port = int(self.job.endpoint.rpartition(":")[2])
        recorder = Recorder(self.net.hosts[0], self.port)
        for number in (1, 2):
            home = self.folder / ("home" if shared_home else f"home{number}")
            home.mkdir(mode=0o700, exist_ok=True)
            self.job.start(number, env={"HOME": str(home), "XDG_CONFIG_HOME": "",
                                        "MUSTER_TOKEN": "require" if shared_home else "auto"})
        self.round = self.job.round(2)
        self.heard = recorder.end()

    def listening(self, host):
        """(address, port) of the agent that listens there, apart from the endpoint."""
        found = []
        for line in host.run("ss", "-Hltn").splitlines():
            address, _, port = line.split()[3].rpartition(":")
            found.append((address.strip("[]"), int(port)))
        return found

    def doors(self, user=None):
        """All ports on which the job's hosts listen; one may serve both nodes and a store."""
        environment = next(iter(self.round.env.values()))
        rounds = [[host.address, port, self.heard["to"] if port == self.port else []]
                  for host in self.net.hosts[:2] for _, port in self.listening(host)]
        self.assertIn((self.net.hosts[0].address, self.port), [tuple(each[:2]) for each in rounds])
        self.assertGreaterEqual(len(rounds), 3, "the endpoint, and a port of each node")
        return {"job": self.job.name, "rounds": rounds, "user": user,
                "stores": [[environment["MASTER_ADDR"], int(environment["MASTER_PORT"])]]}

    def attack(self, host, doors):
        """The result of each attack from this host."""
        done = subprocess.run([*host.prefix, sys.executable, str(ATTACKER / "attacker.py")],
                              input=json.dumps(doors), text=True, capture_output=True,
                              timeout=ATTACKS_WITHIN, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [line.split("\t") for line in done.stdout.splitlines()]

    def assert_refused(self, outcomes, doors):
        """All attacks have run, and each port must have received its share."""
        names = [name for name, _ in doors_of(doors)]
        self.assertEqual([name for _, name in outcomes], names)
        sessions = sum(len(door[2]) for door in doors["rounds"])
        self.assertEqual(len(names), len(doors["rounds"]) * PER_DOOR + sessions * PER_SESSION +
                         len(doors["stores"]) * PER_STORE)
        accepted = [name for outcome, name in outcomes if outcome != "refused"]
        self.assertEqual(accepted, [], f"{len(accepted)} of {len(outcomes)} attacks")

    def assert_undisturbed(self):
        """The workers of the first round have ended the job."""
        self.assertEqual(len(self.job.story.rounds()), 1, self.job.describe())
        self.job.finish()
        self.assertEqual(len(self.job.story.rounds()), 1, self.job.describe())

    def test_a_stranger_on_another_host(self):
        self.start_job()
        doors = self.doors()
        outcomes = self.attack(self.net.hosts[2], doors)
        self.assert_refused(outcomes, doors)
        self.assert_undisturbed()

    def test_after_nodes_without_a_secret_in_common_have_met(self):
        self.start_job(shared_home=False)
        doors = self.doors()
        outcomes = self.attack(self.net.hosts[2], doors)
        self.assert_refused(outcomes, doors)
        self.assert_undisturbed()

    def test_another_user_on_the_first_host(self):
        self.start_job()
        doors = self.doors(NOBODY)
        outcomes = self.attack(self.net.hosts[0], doors)
        self.assert_refused(outcomes, doors)
        self.assert_undisturbed()

    def test_without_a_token_the_forged_greeting_is_accepted(self):
        """So the forged Hello is refused for lack of the token, and not for its layout."""
        self.hosts("node1", "stranger")
        job = self.cluster("2:3", conf=NEVER, id="the-job")
        node = job.start(1, options=["--max-restarts=3"], env={"MUSTER_TOKEN": "none"})
        node.wait_for_text("1 of 3")
        said = self.net.hosts[1].run(sys.executable, str(ATTACKER / "greeting.py"),
                                     self.net.hosts[0].address,
                                     job.endpoint.rpartition(":")[2], job.name)
        self.assertEqual(said, "3\n", "Welcome")
        node.kill(signal.SIGTERM)
        node.end()

    def test_a_stranger_at_the_endpoint_leads_nobody(self):
        self.hosts("node1", "rogue")
        home = self.folder / "home"
        home.mkdir(mode=0o700)
        address, port = self.net.hosts[1].address, free_port()
        heard = self.folder / "rogue"
        with heard.open("wb") as out:
            spawn(self, [*self.net.hosts[1].prefix, sys.executable, ATTACKER / "rogue.py", address,
                         str(port), "the-job"], stdout=out)
        eventually(lambda: read(heard) == "ready\n", "the rogue listens")
        job = self.cluster("2", id="the-job", endpoint=f"{address}:{port}", conf=NEVER)
        node = job.start(1, env={"HOME": str(home), "XDG_CONFIG_HOME": "",
                                 "MUSTER_TOKEN": "require"})
        # A node that believed one of the greetings would not connect again for the next one.
        eventually(lambda: len(read(heard).splitlines()) > 2 * GREETINGS,
                   lambda: f"the node hears all twice; so far\n{read(heard)}")
        said = set(read(heard).splitlines()[1:])
        self.assertEqual(len(said), GREETINGS, said)
        self.assertIsNone(node.process.poll(), node.err())
        self.assertEqual(job.story.events(), [])
        node.kill(signal.SIGTERM)
        node.end()

    def test_what_goes_over_the_wire_names_nobody(self):
        self.start_job()
        for direction, sessions in self.heard.items():
            for session in map(bytes.fromhex, sessions):
                for name in (b"node1", b"node2", b"10.77.0."):
                    self.assertNotIn(name, session, direction)
        self.job.finish()
