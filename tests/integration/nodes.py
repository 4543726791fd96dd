# SPDX-License-Identifier: Apache-2.0
"""Multi-node jobs on this machine: one agent per node, each on its own loopback address. The
workers are muster-node-worker (tests/support/node_worker.cpp), which records its environment and
when it was alive. At the end of every test: no two rounds of one job ran at the same time, and no
process of a job is left."""

import collections
import contextlib
import json
import os
import re
import signal
import struct
import time
import uuid

from harness import (DEADLINE, Ended, Job, JobCase, children, eventually, free_port, read,
                     state)

WORKER = os.environ["MUSTER_NODE_WORKER"]
THAW_WITHIN = 2.0  # s; the time for which workers of a thawing node may be alive on a busy machine
LEASE = 1.0  # s, for --rdzv-conf; short, so that tests that wait for silence finish soon
NEVER = "last_call_timeout=500"  # a round begins with MAX nodes only
SHORT_LEASE = f"{NEVER},lease={LEASE}"
LONG_LEASE = f"{NEVER},lease=60"


class Node(Job):
    """A running launcher whose output goes to files, because the test does not read it while it
    waits."""

    def __init__(self, folder, label, args, **kwargs):
        self.label = label
        self.files = [folder / f"{label}.{stream}" for stream in ("out", "err")]
        streams = [path.open("wb") for path in self.files]
        kwargs.setdefault("stdout", streams[0])
        kwargs.setdefault("stderr", streams[1])
        super().__init__(args, **kwargs)
        for stream in streams:
            stream.close()

    def err(self):
        return self.files[1].read_text(errors="replace")

    def end(self, timeout=DEADLINE):
        eventually(lambda: self.process.poll() is not None,
                   lambda: f"node {self.label} ends; it said:\n{self.err()}", timeout)
        seconds = time.monotonic() - self.started
        return Ended(self.process.returncode, self.files[0].read_bytes(), self.err(), seconds)

    def stop_all(self, signo=signal.SIGSTOP):
        """Sends SIGSTOP or SIGCONT to guard, agent and workers, as if the machine had halted."""
        self.froze = time.monotonic_ns()
        pids = self.pids()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signo)
        if signo == signal.SIGSTOP:
            # The guard continues itself after at most an eighth of a lease.
            rest = [pid for pid in pids if pid != self.process.pid]
            eventually(lambda: all(state(pid) in "TtZ" for pid in rest), "all are stopped")

    def thaw(self):
        """Guard and agent first: workers that they do not kill in time may run again."""
        agent = self.agent()
        workers = children(agent)
        for pid in (self.process.pid, agent):
            os.kill(pid, signal.SIGCONT)
        eventually(lambda: all(state(pid) in "ZX" for pid in workers), "its old workers are dead")
        self.thaw_at_once()

    def thaw_at_once(self):
        """Thaws like a machine: for a moment its workers may run, too. Returns when it was frozen
        and when it was thawed."""
        froze, at = self.froze, time.monotonic_ns()
        self.stop_all(signal.SIGCONT)
        return froze, at

    def kill_agent(self):
        os.kill(self.agent(), signal.SIGKILL)

    def kill_guard(self):
        self.kill(signal.SIGKILL)

    def worker_pids(self):
        return children(self.agent())

    def wait_for_text(self, *texts, within=DEADLINE):
        """Waits until it has printed all of these texts on stderr."""
        return eventually(lambda: all(some in self.err() for some in texts) and self.err(),
                          lambda: f"{self.label} says {texts}; it said:\n{self.err()}", within)


class Round:
    """The environments of the workers in one round, by rank."""

    def __init__(self, name, workers):
        self.name = name
        self.workers = dict(sorted(workers.items()))
        self.env = {rank: worker["env"] for rank, worker in self.workers.items()}

    @property
    def world(self):
        return len(self.workers)

    @property
    def nodes(self):
        """Labels in the order of ranks, each once."""
        return list(dict.fromkeys(worker["node"] for worker in self.workers.values()))

    @property
    def restarts(self):
        """The restart count, which is the same on all ranks."""
        count, = {env["TORCHELASTIC_RESTART_COUNT"] for env in self.env.values()}
        return int(count)

    def rank_of(self, label):
        return next(rank for rank, worker in self.workers.items() if worker["node"] == label)


class Story:
    """What the workers of one job wrote: events and beats."""

    def __init__(self, folder):
        self.folder = folder
        self.thaws = {}  # label: (frozen, thawed), in ns
        for name in ("beats", "do"):
            (folder / name).mkdir(parents=True)
        (folder / "events").touch()

    def events(self):
        return list(parse_lines(self.folder / "events"))

    def rounds(self):
        """All rounds in which every worker has met all others, in order."""
        starts, found = {}, collections.defaultdict(dict)
        for event in self.events():
            if event["what"] == "start":
                starts[event["pid"]] = event
            elif event["what"] == "up":
                start = starts[event["pid"]]
                found[event["round"]][int(start["env"]["RANK"])] = start
        return [Round(name, workers) for name, workers in found.items()
                if len(workers) == int(next(iter(workers.values()))["env"]["WORLD_SIZE"])]

    def order(self, name, text):
        new = self.folder / f"new-{uuid.uuid4().hex}"
        new.write_text(text + "\n")
        new.rename(self.folder / "do" / name)

    def lives(self):
        """(round, node, start, last beat) of all workers, in ns on the steady clock."""
        round_of, places = {}, collections.defaultdict(set)
        starts = {}
        for event in self.events():
            if event["what"] == "start":
                env = event["env"]
                starts[event["pid"]] = tuple(env[name] for name in (
                    "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT", "WORLD_SIZE"))
            elif event["what"] == "met":
                round_of[event["pid"]] = event["round"]
                places[starts[event["pid"]]].add(event["round"])
        out = []
        for path in (self.folder / "beats").iterdir():
            data = path.read_bytes()
            if len(data) != 16:  # killed before its first beat
                continue
            start, last = struct.unpack("qq", data)
            label, _, pid, _ = path.name.rsplit(".", 3)
            name = round_of.get(int(pid))
            if name is None and int(pid) in starts:
                # It never reached its store, but others did.
                place = starts[int(pid)]
                name, = places[place] if len(places[place]) == 1 else [str(place)]
            if name is not None and start:
                out.append((name, label, start, self.excuse(label, last)))
        return out

    def excuse(self, label, last):
        """The last beat, without those of a thawing machine before its guard gets CPU time."""
        froze, thawed = self.thaws.get(label, (0, 0))
        return froze if thawed <= last < thawed + THAW_WITHIN * 1e9 else last

    def overlaps(self):
        """Pairs of workers from different rounds that were alive at the same time."""
        out, latest = [], None
        lives = sorted(self.lives(), key=lambda life: life[2])
        for life in lives:
            if latest and latest[0] != life[0] and latest[3] >= life[2]:
                out.append(f"round {latest[0]} on {latest[1]} was alive until {latest[3]}, "
                           f"round {life[0]} on {life[1]} began {latest[3] - life[2]} ns before")
            if latest is None or life[3] >= latest[3]:
                latest = life
        return out


def parse_lines(path):
    """One JSON object per line. Skips lines that are still being written, or whose writer was
    killed."""
    for line in path.read_text().splitlines() if path.exists() else []:
        with contextlib.suppress(json.JSONDecodeError):
            if line:
                yield json.loads(line)


class Cluster:
    """One job: its command line, its history, its nodes."""

    def __init__(self, case, nnodes, conf="", **options):
        self.case = case
        self.nnodes = nnodes
        self.conf = conf
        self.name = options.pop("id", "job-" + uuid.uuid4().hex[:8])
        self.backend = options.pop("backend", "c10d")
        self.endpoint = options.pop("endpoint", None) or f"127.0.0.1:{free_port()}"
        self.options = options.pop("options", [])
        self.addresses = options.pop("addresses", lambda n: f"127.0.0.{n}")
        assert not options, options
        self.folder = case.folder / uuid.uuid4().hex[:8]
        self.story = Story(self.folder)
        self.may_be_two = False  # allow_split_brain: asked for
        self.nodes = []
        case.clusters.append(self)

    def launcher_args(self, number, nproc=1, options=(), program=WORKER, **changed):
        conf = changed.get("conf", self.conf)
        address = changed.get("address", self.addresses and self.addresses(number))
        out = ["--nnodes", changed.get("nnodes", self.nnodes), "--nproc-per-node", nproc,
               "--rdzv-backend", self.backend,
               "--rdzv-endpoint", changed.get("endpoint", self.endpoint),
               "--rdzv-id", changed.get("id", self.name)]
        out += ["--rdzv-conf", conf] if conf else []
        out += ["--local-addr", address] if address else []
        program = [program] if isinstance(program, str) else program
        return [str(word) for word in (*out, *self.options, *options, *program)]

    def start(self, number, label=None, env=None, popen=None, **how):
        """Starts node `number`. By default its label is "n<number>"."""
        label = label or f"n{number}"
        taken = sum(node.label.split("~")[0] == label for node in self.nodes)
        label += f"~{taken + 1}" if taken else ""
        variables = {**os.environ, "NODE_DIR": str(self.folder), "NODE_LABEL": label,
                     "XDG_STATE_HOME": str(self.folder / "state"), **(env or {})}
        args = self.launcher_args(number, **how)
        node = Node(self.folder, label, args, env=variables, **(popen or {}))
        self.nodes.append(node)
        return node

    def start_all(self, count, **how):
        """Starts nodes 1 to `count`. The first one hosts, although on one machine any could."""
        first = self.start(1, **how)
        eventually(lambda: self.is_hosted() or first.process.poll() is not None,
                   "the first node hosts")
        return [first, *(self.start(number, **how) for number in range(2, count + 1))]

    def is_hosted(self):
        """Whether a process listens on the first endpoint's port."""
        port = int(self.endpoint.split(",")[0].rpartition(":")[2])
        tables = "".join(read(f"/proc/net/{name}") for name in ("tcp", "tcp6"))
        return re.search(rf":{port:04X} [0-9A-F]+:0000 0A ", tables)

    def round(self, world, within=DEADLINE, nodes=None, fresh=True):
        """Waits for a round with this number of workers that was not returned before."""
        def look():
            for one in self.story.rounds():
                if fresh and one.name in self.case.seen_rounds:
                    continue
                if one.world == world and (nodes is None or sorted(one.nodes) == sorted(nodes)):
                    return one
            return None
        one = eventually(look, lambda: f"a round of {world} workers\n{self.describe()}", within)
        self.case.seen_rounds.update(each.name for each in self.story.rounds())
        return one

    def order(self, one, rank, text):
        self.story.order(f"{one.name}.{rank}", text)

    def finish(self, *nodes, code=0):
        """Asks all workers of all rounds to exit; all agents must exit with `code`."""
        nodes = nodes or self.running()  # all may have exited before one of them is asked
        self.story.order("all", f"exit {code}")
        return self.ends(*nodes, code=code)

    def running(self):
        return [node for node in self.nodes if node.process.poll() is None]

    def ends(self, *nodes, code=0):
        out = []
        for node in nodes or self.running():
            ended = node.end()
            self.case.assertEqual(ended.code, code, f"{node.label}: {ended}\n{self.describe()}")
            out.append(ended)
        return out

    def describe(self):
        said = "\n".join(f"--- {node.label} ({node.process.poll()})\n{node.err()}"
                         for node in self.nodes)
        rounds = [(one.name, one.nodes, one.world) for one in self.story.rounds()]
        return f"rounds: {rounds}\n{said}"


class NodesCase(JobCase):
    def setUp(self):
        super().setUp()
        self.clusters = []
        self.seen_rounds = set()
        self.addCleanup(self.check)

    def cluster(self, nnodes, **how):
        return Cluster(self, nnodes, **how)

    def form(self, nnodes, count, nproc=1, env=None, **how):
        """A cluster whose nodes 1 to `count` run: the cluster, these nodes, and their round."""
        job = self.cluster(nnodes, **how)
        nodes = job.start_all(count, nproc=nproc, env=env)
        return job, nodes, job.round(count * nproc)

    def check(self):
        """Checks at the end of each test what must never happen."""
        nodes = [node for cluster in self.clusters for node in cluster.nodes]
        try:
            for node in nodes:
                if node.process.poll() is not None:
                    self.assert_nothing_left(node)
        finally:
            for node in nodes:
                node.__exit__()
        for cluster in self.clusters:
            if cluster.may_be_two:
                continue
            self.assertEqual(cluster.story.overlaps(), [], "two rounds at one time\n" +
                             cluster.describe())


def last_block(ended):
    """The report without the line about logs, which differs between nodes."""
    lines = ended.err.splitlines()
    starts = [i for i, line in enumerate(lines) if line.startswith("muster: ")]
    block = lines[starts[-1]:] if starts else []
    return [line for line in block if not line.lstrip().startswith("logs")]
