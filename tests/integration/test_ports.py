# SPDX-License-Identifier: Apache-2.0
"""Ports reserved for workers: real workers listen on them, and no two jobs get the same port."""

import json
import os
import re

from harness import eventually, free_port
from nodes import NEVER, NodesCase
from test_nodes_ports import listening

# Rank 0 serves on the leader's port, and local rank 0 of each node on the node's own; all ranks
# connect to both. Then each records its environment, and exits when the test says so.
SERVER = """
import json, os, socket, sys, time

folder, leader_addr, leader, own, rank, node, world = sys.argv[1:]
sockets = [name for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")
           and os.readlink(f"/proc/self/fd/{name}").startswith("socket:")]

def serve(port):
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("", int(port)))
    server.listen(64)
    return server

def reach(address, port):
    until = time.monotonic() + 60
    while True:
        try:
            return socket.create_connection((address, int(port)), timeout=60)
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)

servers = [serve(leader)] if rank == "0" else []
if os.environ["LOCAL_RANK"] == "0":
    servers.append(serve(own))
connections = [reach(leader_addr, leader), reach("127.0.0.1", own)]
accepted = [servers[0].accept()[0] for _ in range(int(world))] if rank == "0" else []
names = ("MASTER_ADDR", "MUSTER_PORTS", "MUSTER_LEADER_PORTS", "GROUP_RANK", "RANK")
turn = os.environ["TORCHELASTIC_RESTART_COUNT"]
out = {"argv": sys.argv[2:], "sockets": sockets, **{name: os.environ[name] for name in names}}
with open(f"{folder}/new-{turn}-{rank}", "w") as file:
    json.dump(out, file)
os.rename(f"{folder}/new-{turn}-{rank}", f"{folder}/told-{turn}-{rank}")
until = time.monotonic() + 60
while not os.path.exists(f"{folder}/end-{turn}") and time.monotonic() < until:
    time.sleep(0.01)
if turn == "0" and rank != "1":
    time.sleep(1000)  # a node whose workers have ended well would not come to the next round
sys.exit(3 if turn == "0" else 0)
"""

# A server as most are written: it binds without SO_REUSEADDR.
UDP_SERVER = """
import socket, sys

for port in map(int, sys.argv[1:]):
    with socket.socket(type=socket.SOCK_DGRAM) as server, \\
         socket.socket(type=socket.SOCK_DGRAM) as client:
        server.bind(("", port))
        client.sendto(b"hello over UDP", ("127.0.0.1", port))
        print(server.recv(100).decode())
"""

# The worker of rank 0 listens at the store's address; the others only write.
STORE = """
import os, socket, sys, time
store = socket.socket()
if os.environ["RANK"] == "0":
    store.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    store.bind((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
    store.listen(1)
turn = os.environ["TORCHELASTIC_RESTART_COUNT"]
path = f"{sys.argv[1]}/store-{turn}-{os.environ['RANK']}"
with open(path + ".new", "w") as file:
    file.write(" ".join(os.environ[name] for name in (
        "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE")))
os.rename(path + ".new", path)
if turn == "0":
    until = time.monotonic() + 60
    while not os.path.exists(f"{sys.argv[1]}/store-0-1") and time.monotonic() < until:
        time.sleep(0.01)
    if os.environ["RANK"] == "0":
        sys.exit(3)
    time.sleep(1000)  # a node whose workers have ended well would not come to the next round
"""


class ReservedPorts(NodesCase):
    def told(self, turn, world):
        files = [self.folder / f"told-{turn}-{rank}" for rank in range(world)]
        eventually(lambda: all(file.exists() for file in files),
                   lambda: "all workers have reached both ports\n" +
                   "\n".join(cluster.describe() for cluster in self.clusters))
        return [json.loads(file.read_text()) for file in files]

    def server(self):
        return [self.python(SERVER, "server.py"), str(self.folder), "${leader_addr}",
                "${leader_port0}", "${port0}", "${rank}", "${node_rank}", "${world_size}"]

    def check_round(self, workers, nodes):
        """Checks that arguments and variables agree, and that no descriptor was inherited."""
        first = workers[0]
        for rank, worker in enumerate(workers):
            leader, port = worker["MUSTER_LEADER_PORTS"], worker["MUSTER_PORTS"].split(",")[0]
            self.assertEqual(worker["argv"], [first["MASTER_ADDR"], leader, port, str(rank),
                                              worker["GROUP_RANK"], str(len(workers))])
            self.assertEqual(worker["MUSTER_LEADER_PORTS"], first["MUSTER_LEADER_PORTS"])
            self.assertEqual(worker["sockets"], [])
        ports = {worker["MUSTER_PORTS"] for worker in workers}
        self.assertEqual(len(ports), nodes)
        numbers = [*",".join(ports).split(","), first["MUSTER_LEADER_PORTS"]]
        self.assertEqual(len(set(numbers)), 2 * nodes + 1)

    def test_workers_of_two_nodes_serve_and_reach_them_also_after_a_restart(self):
        job = self.cluster("2", options=["--ports=2", "--leader-ports=1", "--max-restarts=1"])
        job.start_all(2, nproc=2, program=self.server())
        before = self.told(0, 4)
        self.check_round(before, 2)
        self.assertEqual(before[0]["MASTER_ADDR"], "127.0.0.1")
        (self.folder / "end-0").touch()
        after = self.told(1, 4)
        self.check_round(after, 2)
        for old, new in zip(before, after):
            self.assertEqual((old["MUSTER_PORTS"], old["MUSTER_LEADER_PORTS"]),
                             (new["MUSTER_PORTS"], new["MUSTER_LEADER_PORTS"]))
        (self.folder / "end-1").touch()
        job.ends(*job.nodes)

    def test_workers_of_one_node_serve_and_reach_them_also_after_a_restart(self):
        job = self.job("--nproc-per-node=2", "--ports=2", "--leader-ports=1", "--max-restarts=1",
                       *self.server())
        before = self.told(0, 2)
        self.check_round(before, 1)
        (self.folder / "end-0").touch()
        after = self.told(1, 2)
        self.assertEqual(before[0]["MUSTER_PORTS"], after[0]["MUSTER_PORTS"])
        (self.folder / "end-1").touch()
        self.assertEqual(job.end().code, 0)

    def test_a_node_that_reserves_another_number_for_all_is_refused(self):
        job = self.cluster("2", options=["--leader-ports=2"], conf=NEVER)
        first = job.start(1)
        eventually(job.is_hosted, "the first node hosts")
        job.options = ["--leader-ports=1"]
        for ended in job.ends(job.start(2), first, code=2):
            self.assertIn("--leader-ports (plus 1 for JAX, see --env-for) is 2 in the job and 1 ",
                          ended.err)

    def test_jobs_that_share_a_small_range_get_each_port_once(self):
        jobs, each = 8, 3
        size = jobs * (each + 1) + 4  # the workers' stores listen there, too
        first = free_port(count=size)
        last = first + size - 1
        script = f"echo $MUSTER_PORTS; touch {self.folder}/up-$0; exec sleep 1000"
        running = [self.job(f"--port-range={first}-{last}", f"--ports={each}",
                            "--no-python", "sh", "-c", script, str(number))
                   for number in range(jobs)]
        self.wait_for(*(f"up-{number}" for number in range(jobs)))
        for job in running:
            job.kill(15)
        ends = [job.end() for job in running]
        self.assertEqual([ended.code for ended in ends], [143] * jobs, [str(one) for one in ends])
        numbers = [int(port) for ended in ends for port in ended.out.split(",")]
        self.assertEqual(len(numbers), jobs * each)
        self.assertEqual(len(set(numbers)), jobs * each)
        self.assertTrue(all(first <= port <= last for port in numbers))

    def test_more_than_a_range_has_left_is_one_line(self):
        first = free_port(count=4)
        with_all = self.job("--ports=2", f"--port-range={first}-{first + 2}",
                            "--no-python", "sh", "-c", f"touch {self.folder}/up; exec sleep 1000")
        self.wait_for("up")
        ended = self.run_job("--ports=1", f"--port-range={first}-{first + 3}", "/bin/true", code=70)
        self.assertRegex(ended.err, rf"^muster: --ports=1: all ports from {first} to {first + 3} "
                                    r"are in use\. Widen --port-range, or stop the programs "
                                    r"that use them\n$")
        with_all.kill(15)
        with_all.end()

    def test_the_store_of_one_node_keeps_to_the_range_also_after_a_restart(self):
        first = free_port(count=4)
        script = (f"echo $MASTER_PORT >>{self.folder}/ports; touch "
                  f"{self.folder}/up$TORCHELASTIC_RESTART_COUNT; "
                  "[ $TORCHELASTIC_RESTART_COUNT = 1 ] || exit 1; exec sleep 1000")
        job = self.job(f"--port-range={first}-{first + 3}", "--max-restarts=1", "--no-python", "sh",
                       "-c", script)
        self.wait_for("up1")
        places = {port for _, port in listening(job.pids())}
        job.kill(15)
        job.end()
        told = [int(line) for line in (self.folder / "ports").read_text().split()]
        self.assertEqual((len(told), {told[1]}), (2, places))
        self.assertTrue(all(first <= port <= first + 3 for port in told), told)

    def test_where_a_worker_is_to_serve_the_store_its_port_is_held_for_it(self):
        job = self.cluster("2", options=["--max-restarts=1"])
        env = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        nodes = job.start_all(2, env=env, program=[self.python(STORE), str(self.folder)])
        self.wait_for("store-1-0", "store-1-1")
        job.ends(*nodes)
        places = [{(self.folder / f"store-{turn}-{rank}").read_text() for rank in (0, 1)}
                  for turn in (0, 1)]
        for place in places:
            self.assertEqual(len(place), 1)
            self.assertTrue(next(iter(place)).endswith(" False"), place)
        self.assertNotEqual(*places)

    def test_then_the_launcher_does_not_listen_there(self):
        env = {**os.environ, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        job = self.job("--no-python", "sh", "-c",
                       f"echo $MASTER_PORT >{self.folder}/port; touch {self.folder}/up; sleep 1000",
                       env=env)
        self.wait_for("up")
        self.assertRegex((self.folder / "port").read_text(), r"^[1-9]\d*\n$")
        self.assertEqual(listening(job.pids()), set())
        job.kill(15)
        job.end()

    def test_udp_servers_need_no_option_to_listen_on_them(self):
        server = self.python(UDP_SERVER, "udp.py")
        done = self.run_job("--nproc-per-node=1", "--ports=2", server, "${port0}", "${port1}",
                            code=0)
        self.assertEqual(done.out, "hello over UDP\nhello over UDP\n")

    def test_explain_names_them_before_they_are_known(self):
        args = ["--ports=2", "--leader-ports=1", "/bin/echo", "${port1}", "${rank}"]
        plan = self.run_job("--explain=plan", *args)
        self.assertRegex(plan.out, r"^# reserved ports are chosen at startup")
        self.assertIn("runs    /bin/echo '${port1}' 0\n", plan.out)
        env = self.run_job("--explain=env", *args).out
        self.assertIn("\nMUSTER_PORTS=<2 reserved on this node>\n", env)
        self.assertTrue(re.search(r"\nports +2 +command line\n",
                                  self.run_job("--explain", *args).out))
