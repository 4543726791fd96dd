# SPDX-License-Identifier: Apache-2.0
"""Programs that set MASTER_PORT themselves: the launcher warns if they wait in vain, and only then.
All jobs run at the same time, because each check happens after 30 s."""

import signal
import sys

from harness import JobCase, eventually, free_port, read

# Arguments: what to do with the port, the file to create after that, the port.
PROGRAM = """
import os, pathlib, signal, socket, sys
what, ready, port = sys.argv[1:]
if what != "plain":
    os.environ["MASTER_PORT"] = port
if what == "own store":
    os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "False"
if what == "serves":
    server = socket.create_server(("127.0.0.1", int(port)))
if what == "changes back":
    os.environ["MASTER_PORT"] = os.environ["GIVEN"]
pathlib.Path(ready).touch()
while True:
    signal.pause()
"""

GIVEN = """
import os
os.environ["GIVEN"] = os.environ["MASTER_PORT"]
"""

# The first bytes from a PyTorch client: it greets and asks the server to echo its nonce.
VISITS = """
import os, socket, struct
store = socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
store.sendall(bytes([0]) + struct.pack("<I", 0x3C85F7CE) + bytes([13]) + struct.pack("<I", 7))
assert store.recv(4) == struct.pack("<I", 7)
os.environ["GIVEN"] = os.environ["MASTER_PORT"]
"""

QUIET = ("plain", "own store", "serves", "changes back", "was there")


class MasterPort(JobCase):
    def start(self, what, port, *options):
        name = what.replace(" ", "_")
        begin = VISITS if what == "was there" else GIVEN
        script = self.python(begin + PROGRAM, f"{name}.py")
        with (self.folder / f"{name}.err").open("wb") as err:
            job = self.job(*options, sys.executable, script, what, self.folder / name, port,
                           stderr=err)
        self.wait_for(name)
        return job, self.folder / f"{name}.err"

    def start_node(self, what, rank, meeting):
        """One of two; its program starts when both are there."""
        name = f"{what.replace(' ', '_')}-{rank}"
        # The other node would also see this node's connections, because both are the same machine.
        begin = VISITS + "store.close()\n" if what == "was there" else GIVEN
        script = self.python(begin + PROGRAM, f"{name}.py")
        with (self.folder / f"{name}.err").open("wb") as err:
            job = self.job(*meeting, f"--node-rank={rank}", sys.executable, script, what,
                           self.folder / name, free_port(), stderr=err)
        return job, self.folder / f"{name}.err"

    def test_who_waits_in_vain_is_told_and_nobody_else(self):
        quiet = [self.start(what, free_port()) for what in QUIET]
        meeting = ["--nnodes=2", "--master-addr=127.0.0.1", f"--master-port={free_port()}",
                   "--rdzv-conf=any_program=true"]
        nodes = [self.start_node(what, rank, meeting)
                 for rank, what in enumerate(("was there", "trap"))]
        port = free_port()
        loud, err = self.start("trap", port, "--nproc-per-node=2")
        eventually(lambda: "MASTER_PORT" in read(err), "the trap is told")
        self.assertRegex(
            read(err),
            rf"^muster: warning: process \d+ \(python[^)]*\) set MASTER_PORT to {port}, where no "
            r"store is listening; the workers' store is at 127\.0\.0\.1:\d+, and no client has "
            r"connected to it for 30 s")
        self.assertEqual(read(err).count("MASTER_PORT to"), 1)
        other = nodes[1][1]
        eventually(lambda: "no process on this host has been connected to it" in read(other),
                   "the trap is told on a node that does not serve the store")
        self.assertEqual(read(other).count("MASTER_PORT to"), 1)
        self.assertNotIn("MASTER_PORT", read(nodes[0][1]))
        nodes[0][0].kill(signal.SIGTERM)
        nodes[1][0].kill(signal.SIGTERM)
        for job, _ in nodes:
            job.end()
        for job, said in [*quiet, (loud, err)]:
            job.kill(signal.SIGTERM)
            self.assertEqual(job.end().code, 143)
        for _, said in quiet:
            self.assertEqual(read(said), "muster: interrupted by SIGTERM from pid "
                             f"{read(said).split()[-1]}\n")
