# SPDX-License-Identifier: Apache-2.0
"""A launcher for tests of muster.elastic: starts the ranks of a job, and replaces those that die,
in the protocol of lib/worker/channel/CHANNEL.md. It makes deaths coincide and lets a test act
between the report of a death and the replacement, which the real launcher cannot do."""
import contextlib
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import uuid

DEADLINE = 120.0  # seconds
STEP = 3  # epochs need not be consecutive


def send(connection, **frame):
    """A worker that has exited cannot receive; wait() notices its death."""
    with contextlib.suppress(OSError):
        connection.sendall(json.dumps(frame).encode() + b"\n")


class Rank:
    """One process and its connections."""

    def __init__(self, rank, process, files):
        self.rank, self.process, self.files = rank, process, files
        self.subscribed = []  # connections
        self.mends = False

    def close(self):
        self.process.kill()
        self.process.wait()
        for file in self.files:
            file.close()


class ElasticJob:
    """Runs `command` on `size` ranks. mends: replacements until a death fails the job. deaths: the
    number of deaths to wait for before each replacement (default: 1). before_mend(job, ranks):
    called when the others have been notified of these deaths. stopped(job): called when a rank has
    stopped (SIGSTOP) and was reported as gone; the job then kills it.

    Results: codes, out and err of the ranks' last processes; ready: a set of (epoch, rank)."""

    def __init__(self, command, size, store_port, folder, environment, mends=10, deaths=(),
                 before_mend=None, stopped=None):
        self.command, self.size, self.store_port, self.folder = command, size, store_port, folder
        self.environment, self.mends, self.deaths = environment, mends, list(deaths)
        self.before_mend, self.stopped = before_mend, stopped
        self.epoch, self.ranks, self.all = 1, {}, []
        self.ready, self.codes = set(), {}
        self.lock = threading.RLock()
        self.exits = queue.Queue()
        self.name = f"muster-test-{uuid.uuid4()}"
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind("\0" + self.name)
        self.server.listen(64)
        threading.Thread(target=self.accept, daemon=True).start()

    def run(self):
        try:
            for rank in range(self.size):
                self.start(rank)
            self.supervise()
        finally:
            for each in self.all:
                each.close()
            self.server.close()
        return self

    def out(self, rank):
        return self.read(rank, 0)

    def err(self, rank):
        return self.read(rank, 1)

    def read(self, rank, which):
        with open(self.ranks[rank].files[which].name, encoding="utf-8") as file:
            return file.read()

    def start(self, rank):
        files = [open(os.path.join(self.folder, f"{rank}.{self.epoch}.{kind}"), "w")
                 for kind in ("out", "err")]
        variables = {"RANK": rank, "WORLD_SIZE": self.size, "LOCAL_RANK": rank,
                     "LOCAL_WORLD_SIZE": self.size, "MASTER_ADDR": "127.0.0.1",
                     "MASTER_PORT": self.store_port, "TORCHELASTIC_RESTART_COUNT": 0,
                     "TORCHELASTIC_RUN_ID": self.name, "MUSTER_AGENT": self.name,
                     "MUSTER_EPOCH": self.epoch}
        with self.lock:
            process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=files[0],
                                       stderr=files[1], env={**self.environment, **{
                                           name: str(value) for name, value in variables.items()}})
            self.ranks[rank] = Rank(rank, process, files)
            self.all.append(self.ranks[rank])
        threading.Thread(target=self.wait, args=(self.ranks[rank],), daemon=True).start()

    def wait(self, rank):
        """Reports that the process stopped, and that it exited."""
        with contextlib.suppress(ChildProcessError):  # close() was faster
            news = os.waitid(os.P_PID, rank.process.pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT)
            if news.si_code == os.CLD_STOPPED:
                self.exits.put((rank, None))
        self.exits.put((rank, rank.process.wait()))

    def supervise(self):
        while len(self.codes) < self.size:
            dead = self.next_deaths(self.deaths.pop(0) if self.deaths else 1)
            if not dead:
                continue
            if self.before_mend:
                self.before_mend(self, dead)
            if self.mends == 0:
                return
            self.mends -= 1
            self.mend(dead)

    def next_deaths(self, count):
        """Notifies the other ranks of each exit at once. Returns the ranks to replace; none if the
        job is complete."""
        dead = []
        while len(dead) < count and len(self.codes) < self.size:
            rank, code = self.exits.get(timeout=DEADLINE)
            if self.ranks[rank.rank] is not rank:
                continue
            if code is not None:
                self.codes[rank.rank] = code
            if code is None or rank.rank not in dead:
                self.tell("gone", epoch=self.epoch, rank=rank.rank, count=1, failed=code != 0,
                          why="for a test")
            if code is None:
                self.stopped(self)
                rank.process.send_signal(signal.SIGKILL)
            elif code != 0:
                dead.append(rank.rank)
        return dead

    def collect(self):
        """Waits until all ranks have exited, without telling the others."""
        while len(self.codes) < self.size:
            rank, code = self.exits.get(timeout=DEADLINE)
            if self.ranks[rank.rank] is rank and code is not None:
                self.codes[rank.rank] = code

    def mend(self, dead):
        over, self.epoch = self.epoch, self.epoch + STEP
        for rank in dead:
            del self.codes[rank]
            self.start(rank)
        with self.lock:
            for rank in self.ranks.values():
                for connection in rank.subscribed:
                    self.tell_round(rank, connection)
        # A late report of a death in the last epoch must not disturb the new one.
        self.tell("gone", epoch=over, rank=dead[0], count=1, failed=True, why="late")

    def tell(self, kind, **frame):
        with self.lock:
            for rank in self.ranks.values():
                for connection in rank.subscribed:
                    send(connection, type=kind, **frame)

    def tell_round(self, rank, connection):
        send(connection, type="round", epoch=self.epoch, rank=rank.rank, world_size=self.size,
             local_rank=rank.rank, local_world_size=self.size, group_rank=0, group_world_size=1,
             restarts=0, store_address="127.0.0.1", store_port=self.store_port, left=[], joined=[])

    def disconnect(self):
        """Closes the connections, as if the launcher had died."""
        with self.lock:
            for rank in self.ranks.values():
                for connection in rank.subscribed:
                    with contextlib.suppress(OSError):
                        connection.shutdown(socket.SHUT_RDWR)

    def accept(self):
        while True:
            try:
                connection, _ = self.server.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        pid = int.from_bytes(credentials[:4], sys.byteorder)
        with self.lock:
            rank = next(each for each in self.all if each.process.pid == pid)
        send(connection, type="hello", version=1, epoch=self.epoch, rank=rank.rank,
             local_rank=rank.rank)
        with contextlib.suppress(OSError), connection.makefile() as lines:
            for line in lines:
                self.receive(rank, connection, json.loads(line))
        with self.lock, connection:
            if connection in rank.subscribed:
                rank.subscribed.remove(connection)

    def receive(self, rank, connection, frame):
        with self.lock:
            if frame["type"] == "subscribe" and self.ranks[rank.rank] is rank:
                rank.mends = rank.mends or frame.get("mends") is True
                rank.subscribed.append(connection)
                self.tell_round(rank, connection)
            elif frame["type"] == "ready":
                self.ready.add((frame["epoch"], rank.rank))
