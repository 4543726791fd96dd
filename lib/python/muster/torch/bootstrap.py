# SPDX-License-Identifier: Apache-2.0
"""Bootstraps a new group: its ranks find each other through PyTorch's store."""
from __future__ import annotations

import functools
import json
import os
import secrets
import socket
from datetime import timedelta
from typing import Any, Dict, Optional, Tuple

import torch.distributed as dist

from .. import errors
from ..communicator import Communicator, ServedStore
from . import compiled
from .base import Meeting
from .control import TOKEN_BYTES, Control
from .group import ProcessGroup
from .version import VERSION

KEY = "muster/bootstrap"
# PyTorch 2.1 introduced the wire format that the library's client uses.
_SPEAKS_OURS = VERSION >= (2, 1)
_ANY_PORT = (0, 0)
# The epoch of new groups; None for the number of restarts. Set by muster.elastic, because the
# number of restarts does not change when muster replaces a single rank.
epoch: Optional[int] = None


def create(store: dist.Store, rank: int, size: int, timeout: timedelta,
           label: str = "muster") -> Any:
    """For torch.distributed: creates the group of these ranks; returns when all of them have
    called it. Returns a ProcessGroup, or its compiled form (compiled.py). label: for the
    profiler's ranges."""
    return compiled.wrap(create_in_python(store, rank, size, timeout, label))


def create_in_python(store: dist.Store, rank: int, size: int, timeout: timedelta,
                     label: str = "muster") -> ProcessGroup:
    """Like create(), but never compiled."""
    group = _in_python(store, rank, size, timeout)
    group.label = label
    return group


def _in_python(store: dist.Store, rank: int, size: int, timeout: timedelta) -> ProcessGroup:
    seconds = timeout.total_seconds()
    if size == 1:
        return ProcessGroup(Communicator.create(None, 0, 1, timeout=seconds),
                            _alone(store, seconds))
    below = _tcp_store(store)
    served: Optional[ServedStore] = None
    if rank == 0:
        if not (below and _SPEAKS_OURS):
            served = ServedStore()
        store.set(KEY, json.dumps({"job": f"torch.{secrets.token_hex(6)}",
                                   "token": secrets.token_hex(TOKEN_BYTES),
                                   "store": served and [_own_address(below), served.port]}))
    group = json.loads(store.get(KEY))
    options: Dict[str, Any] = {
        "epoch": int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) if epoch is None else epoch,
        "timeout": seconds, "init_timeout": seconds, **_overrides()}
    control = Control(rank, size, bytes.fromhex(group["token"]))
    address = options.get("address") or _own_address(below)
    port = control.serve(address, _port_range())
    store.set(f"{KEY}/{rank}", json.dumps([address, port]))
    # If rank 0 serves no separate store, each rank uses PyTorch's store at the address that it
    # already uses.
    host, at_port = group["store"] or (below.host, below.port)
    at = (host, at_port)

    def address_of(other: int) -> Tuple[str, int]:
        where = json.loads(store.get(f"{KEY}/{other}"))
        return where[0], where[1]
    comm = Communicator.create(at, rank, size, job=group["job"], **options)
    return ProcessGroup(comm, Meeting(
        store, served, control, seconds, create=create,
        make_channel=functools.partial(_pair, at, rank, f"{group['job']}.tags", options),
        address_of=address_of))


def _alone(store: Any, seconds: float) -> Meeting:
    """Creates the Meeting of a group that has only one rank."""
    def nobody(rank: int) -> Any:
        raise errors.InvalidArgument("a group of one rank has no other rank to send to")
    return Meeting(store, None, Control(0, 1, b""), seconds, create=create, make_channel=nobody,
                   address_of=nobody)


def _pair(store: Tuple[str, int], rank: int, job: str, options: Dict[str, Any],
          other: int) -> Communicator:
    """The communicator of this rank and another rank of the group."""
    low, high = sorted((rank, other))
    if options.get("backend") == "hier":  # needs the same number of ranks on each host
        options = {**options, "backend": "auto"}
    return Communicator.create(store, int(rank > other), 2, job=f"{job}.{low}-{high}", **options)


def _port_range() -> Tuple[int, int]:
    """The port range that the launcher allows ranks to listen on."""
    first, dash, last = os.environ.get("MUSTER_COLLECTIVE_PORT_RANGE", "").partition("-")
    return (int(first), int(last)) if dash else _ANY_PORT


def _tcp_store(store: Any) -> Any:
    """The TCPStore inside any PrefixStores; None for any other kind of store."""
    while isinstance(store, dist.PrefixStore):
        store = store.underlying_store
    return store if isinstance(store, dist.TCPStore) else None


def _own_address(below: Any) -> str:
    """This process's address for the other ranks: the local address on the route to the store."""
    if below is None:
        return "127.0.0.1"  # file and in-memory stores serve only one machine
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            below.host, below.port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)  # sends nothing
            return str(probe.getsockname()[0])
    except OSError:
        return "127.0.0.1"


def _overrides() -> Dict[str, str]:
    names = {"backend": "BACKEND", "host": "HOST", "address": "ADDRESS",
             "recorder_folder": "FLIGHT_DIR"}
    given = {option: os.environ.get(f"MUSTER_COLLECTIVE_{name}") for option, name in names.items()}
    return {option: value for option, value in given.items() if value is not None}
