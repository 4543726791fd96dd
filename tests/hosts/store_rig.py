# SPDX-License-Identifier: Apache-2.0
"""A job on several hosts whose workers use their store, and strangers that try to use it."""

import sys

from harness import eventually, free_port, read
from hosts import NETWORK, HostsCase

# Greets the store and asks for an echo; prints "in", or the reason.
TALK = """
import os, socket, struct, sys, time
def talk(host, port):
    try:
        with socket.socket() as link:
            link.settimeout(20)
            link.connect((host, int(port)))
            link.sendall(b"\\0" + struct.pack("<I", 0x3C85F7CE) + b"\\x0d" + struct.pack("<I", 7))
            got = link.recv(4)
            return "in" if got == struct.pack("<I", 7) else f"closed after {len(got)} bytes"
    except OSError as error:
        return f"{error}"
"""
STRANGER = TALK + """
if sys.argv[3] != "-":
    os.setuid(int(sys.argv[3]))
print(talk(*sys.argv[1:3]))
"""
WORKER = TALK + """
folder = os.environ["NODE_DIR"]
where = os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]
path = os.path.join(folder, "said." + os.environ["RANK"])
with open(path + ".new", "w") as out:
    print(talk(*where), *where, os.getpid(), file=out)
os.rename(path + ".new", path)
while not os.path.exists(os.path.join(folder, "end")):
    time.sleep(0.02)
"""
OTHER_USER = 65534
WITHIN = 60  # s


class StoreCase(HostsCase):
    def begin(self, via, hosts=("node1", "node2"), nodes=2, **how):
        """A job on the first hosts, whose workers exit in end_job; the last host is a stranger."""
        if hosts:
            self.hosts(*hosts)
        options = [] if via is None else [f"--store-via={via}"]
        self.job = self.cluster(str(nodes), conf="last_call_timeout=500", options=options)
        self.nodes = self.job.start_all(nodes, program=self.worker(), **how)
        return self.job

    def begin_apart(self, *via):
        """Each host uses a different way to the store."""
        self.hosts("node1", "node2")
        self.job = self.cluster("2", conf="last_call_timeout=500")
        self.nodes = [self.job.start(number, program=self.worker(), options=[f"--store-via={how}"])
                      for number, how in enumerate(via, 1)]

    def begin_on_second(self, via="direct"):
        """The second host has the endpoint, and therefore leads; the first one has the first
        rank."""
        self.hosts("node1", "node2", "node3")
        program = self.worker()
        self.job = self.cluster("3", conf="last_call_timeout=500", options=[f"--store-via={via}"],
                                endpoint=f"{NETWORK}2:{free_port()}")
        self.nodes = [self.job.start(number, program=program) for number in (2, 1, 3)]

    def worker(self):
        path = self.folder / "worker.py"
        path.write_text(WORKER)
        return [sys.executable, str(path)]

    def said(self, rank):
        """A worker's answer from the store, the store's address and port that it used, and its
        pid."""
        path = self.job.folder / f"said.{rank}"
        text = eventually(lambda: read(path), lambda: f"rank {rank} says\n{self.job.describe()}",
                          WITHIN)
        heard, address, port, pid = text.rsplit(maxsplit=3)
        return heard, address, port, int(pid)

    def stranger(self, host, address, port, uid="-"):
        return host.run(sys.executable, "-c", STRANGER, address, port, str(uid)).strip()

    def end_job(self):
        (self.job.folder / "end").touch()
        return self.job.ends(*self.nodes)

    def assert_refused(self, heard):
        self.assertRegex(heard, "closed after 0 bytes|reset by peer")

