# SPDX-License-Identifier: Apache-2.0
"""How the ranks of a new group find each other: PyTorch's store tells where to meet."""
import json
import os
import socket
import uuid

import torch
import torch.distributed as dist

from ..communicator import Communicator, ServedStore
from .group import ProcessGroup

KEY = "muster/place"
# Since 2.1 PyTorch's servers speak what our client does.
_SPEAKS_OURS = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 1)


def create(store, rank, size, timeout):
    """For torch.distributed: the group of these ranks; returns when all have come."""
    seconds = timeout.total_seconds()
    if size == 1:
        return ProcessGroup(Communicator.create(None, 0, 1, timeout=seconds), None)
    below = _tcp_store(store)
    served = None
    if rank == 0:
        if not (below and _SPEAKS_OURS):
            served = ServedStore()
        store.set(KEY, json.dumps({"job": f"torch.{uuid.uuid4().hex[:12]}",
                                   "store": served and [_own_address(below), served.port]}))
    place = json.loads(store.get(KEY))
    # Whoever shares PyTorch's store reaches it by the name that reached it before.
    where = tuple(place["store"] or (below.host, below.port))
    options = {"epoch": int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")),
               "timeout": seconds, "init_timeout": seconds, **_overrides()}
    comm = Communicator.create(where, rank, size, job=place["job"], **options)

    def make_lane(other, tag):
        return _pair(where, (rank, other), f"{place['job']}.tag{tag}", options)
    return ProcessGroup(comm, served, store, make_lane)


def _pair(where, ranks, job, options):
    """The communicator of two ranks of the group, of which the first is this one."""
    rank, other = ranks
    low, high = sorted(ranks)
    if options.get("backend") == "hier":  # which two ranks cannot always have
        options = {**options, "backend": "auto"}
    return Communicator.create(where, int(rank > other), 2, job=f"{job}.{low}-{high}", **options)


def _tcp_store(store):
    """The TCPStore below prefixes; None where there is another one."""
    while isinstance(store, dist.PrefixStore):
        store = store.underlying_store
    return store if isinstance(store, dist.TCPStore) else None


def _own_address(below):
    """That the others reach this process by: the one that the store is reached from."""
    if below is None:
        return "127.0.0.1"  # stores in files and in memory are of one machine
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            below.host, below.port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)  # sends nothing
            return probe.getsockname()[0]
    except OSError:
        return "127.0.0.1"


def _overrides():
    names = {"backend": "BACKEND", "host": "HOST", "address": "ADDRESS",
             "recorder_folder": "FLIGHT_DIR"}
    found = {option: os.environ.get(f"MUSTER_COLLECTIVE_{name}") for option, name in names.items()}
    return {option: value for option, value in found.items() if value is not None}
