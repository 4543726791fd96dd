# SPDX-License-Identifier: Apache-2.0
"""Prints the cost of each way to the workers' store for a worker on another host: two hosts, one
worker on each. Not a test, because the time decides nothing. Needs root, and
    MUSTER_BIN=… MUSTER_PUPPET=… MUSTER_NODE_WORKER=… PYTHONPATH=tests/integration:tests/hosts \\
        python3 tests/hosts/measure_store.py"""
import json
import statistics
import sys
import unittest

from harness import eventually, read
from hosts import HostsCase

ROUNDS = 3
WORKER = """
import json, os, socket, struct, time
where = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
GREETING = b"\\0" + struct.pack("<I", 0x3C85F7CE)
PING = b"\\x0d" + struct.pack("<I", 7)
KEY = struct.pack("<Q", 1) + b"k"
VALUE = 1 << 20

def connect():
    link = socket.create_connection(where)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.sendall(GREETING + PING)
    assert len(exactly(link, 4)) == 4
    return link

def exactly(link, count):
    out = bytearray(count)
    view = memoryview(out)
    while view:
        got = link.recv_into(view)
        assert got, "closed"
        view = view[got:]
    return out

def timed(work, times):
    out = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        out.append(time.perf_counter() - began)
    return sorted(out)[times // 2]

if os.environ["RANK"] == "1":
    said = {"connect": timed(lambda: connect().close(), 200)}
    link = connect()
    def ping():
        link.sendall(PING)
        exactly(link, 4)
    said["ping"] = timed(ping, 2000)
    put = b"\\x01" + KEY + struct.pack("<Q", VALUE) + bytes(VALUE)
    def write():
        for _ in range(64):
            link.sendall(put)
        ping()
    said["set"] = 64 / timed(write, 5)
    get = b"\\x03" + KEY
    def load():
        for _ in range(64):
            link.sendall(get)
            exactly(link, 8 + VALUE)
    said["get"] = 64 / timed(load, 5)
    path = os.path.join(os.environ["NODE_DIR"], "said")
    with open(path + ".new", "w") as out:
        json.dump(said, out)
    os.rename(path + ".new", path)
while not os.path.exists(os.path.join(os.environ["NODE_DIR"], "said")):
    time.sleep(0.05)
"""


class Ways(HostsCase):
    def one(self, via):
        worker = self.folder / "worker.py"
        worker.write_text(WORKER)
        job = self.cluster("2", conf="last_call_timeout=500", options=[f"--store-via={via}"])
        nodes = job.start_all(2, program=[sys.executable, str(worker)])
        text = eventually(lambda: read(job.folder / "said"), "the worker has measured", 300)
        job.ends(*nodes)
        return json.loads(text)

    def test_ways(self):
        self.hosts("node1", "node2")
        took = {via: [] for via in ("open", "direct", "proxy")}
        for _ in range(ROUNDS):
            for via, said in took.items():
                said.append(self.one(via))
        for via, said in took.items():
            middle = {what: statistics.median(one[what] for one in said) for what in said[0]}
            print(f"{via:6}: connect and greet {middle['connect'] * 1e6:.0f} us, "
                  f"round trip {middle['ping'] * 1e6:.0f} us, "
                  f"set {middle['set']:.0f} MiB/s, get {middle['get']:.0f} MiB/s", flush=True)


if __name__ == "__main__":
    unittest.main()
