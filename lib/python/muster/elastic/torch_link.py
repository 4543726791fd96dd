# SPDX-License-Identifier: Apache-2.0
"""The default process group of torch.distributed, for one epoch."""
from __future__ import annotations

import contextlib
import importlib
import os
import sys
import time
from datetime import timedelta
from typing import Any, List, Optional, Set

import torch
import torch.distributed as dist

from .. import errors
from . import _gloo, _sockets, _tensors
from ._link import PATIENCE, Link
from ._news import Members

C10D: Any = dist.distributed_c10d


class TorchLink(Link):
    """backend: as in torch.distributed.init_process_group()."""

    def __init__(self, members: Members, backend: Optional[str]) -> None:
        self._members = members
        self._backend = backend or ("nccl" if torch.cuda.is_available() else "gloo")
        self._device = torch.device("cuda" if self._backend.endswith("nccl") and
                                    "cpu:" not in self._backend else "cpu")
        self._before = _sockets.inodes()
        self._mine: Optional[Set[int]] = None  # the group's sockets; None until it exists
        self._have_met = False
        self._watch = _gloo.Watch()
        self._hook = sys.excepthook  # init_process_group() wraps it

    def connect(self) -> None:
        if "muster" in self._backend:  # the import registers it
            bootstrap: Any = importlib.import_module("muster.torch.bootstrap")
            bootstrap.epoch = self._members.epoch
        if self._members.store is not None:
            self._init(self._meet(*self._members.store))
        elif self._members.size > 1:
            dist.init_process_group(self._backend)
        else:
            self._init(dist.HashStore())
        self._mine = _sockets.inodes() - self._before

    def _init(self, store: Any) -> None:
        dist.init_process_group(self._backend, store=store, rank=self._members.rank,
                                world_size=self._members.size)

    def _meet(self, address: str, port: int) -> Any:
        """Returns the epoch's store when all ranks have arrived. The group is created after that,
        because the creation of a gloo group cannot be interrupted while it waits for a rank."""
        server = dist.TCPStore(address, port, is_master=False, wait_for_workers=False)
        store = dist.PrefixStore(f"muster.elastic/{self._members.epoch}", server)
        if store.add("arrived", 1) == self._members.size:
            store.set("all", "1")
        store.wait(["all"], timedelta(seconds=PATIENCE))
        self._have_met = True
        return store

    def cut(self) -> None:
        """Shuts down the connections: gloo has no other interruption. They include this epoch's
        connection to the store, on which another rank's creation of a subgroup may wait. If that
        does not help, ends the process, so that muster replaces it."""
        if self._is_stuck():
            print(f"muster.elastic: rank {self._members.rank}: gloo does not return from an "
                  "operation whose connections are closed (a fault of gloo). This process exits, "
                  "so that muster replaces it, too", file=sys.stderr, flush=True)
            os._exit(1)
        if self._mine is None:
            _sockets.shut_down(_sockets.inodes() - self._before)
            return
        if self._backend != "gloo":
            for group in _groups():
                _abort(group)
        _sockets.shut_down(self._mine)

    def _is_stuck(self) -> bool:
        """Never with subgroups: their connections are not cut, so an operation may rightly wait."""
        return ("gloo" in self._backend and len(_groups()) < 2 and self._watch.is_stuck(
            time.monotonic(), self._mine is None and self._have_met))

    def close(self, is_lost: bool) -> None:
        if dist.is_initialized():
            if is_lost and "nccl" in self._backend and hasattr(C10D, "_abort_process_group"):
                C10D._abort_process_group()  # destroying a group waits for its operations
            else:
                dist.destroy_process_group()
        _reset_names()
        sys.excepthook = self._hook

    def barrier(self) -> None:
        dist.barrier()

    def gather(self, number: int) -> List[int]:
        mine = torch.tensor([number], device=self._device)
        numbers = [torch.zeros_like(mine) for _ in range(self._members.size)]
        dist.all_gather(numbers, mine)
        return [int(each) for each in numbers]

    def broadcast(self, value: Any, root: int) -> Any:
        return _tensors.broadcast(value, root, self._members.rank == root, self._device)


def _groups() -> List[Any]:
    world = getattr(C10D, "_world", None)
    return list(C10D._pg_map if world is None else world.pg_map)


def _abort(group: Any) -> None:
    """Backends without abort() have their connections cut."""
    with contextlib.suppress(AttributeError, RuntimeError, errors.Error):
        if hasattr(group, "abort"):
            group.abort()
        else:  # PyTorch before 2.6, with the compiled backend
            group._get_backend(torch.device("cpu")).abort()


def _reset_names() -> None:
    """PyTorch numbers its groups and uses the numbers as keys in the store. If it fails to create a
    group, it does not reset the numbers, and a replacement would start with others."""
    world = getattr(C10D, "_world", None)
    if world is None:
        C10D._group_count = 0
    else:
        world.group_count = 0
