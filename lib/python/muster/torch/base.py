# SPDX-License-Identifier: Apache-2.0
"""The process group without its operations: PyTorch's interface, the communicator, pending Works,
and shutdown."""
from __future__ import annotations

import threading
from ctypes import sizeof
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Callable, List, Optional, Sequence, Tuple

import torch
import torch.distributed as dist

from .. import _library as c
from .. import errors
from ..communicator import Communicator, ServedStore
from ..operations import NO_BUFFER
from . import tensors as t
from .control import Control
from .futures import Completer
from .messages import Messages
from .monitored import MonitoredBarrier
from .overloads import Options, seconds_of
from .work import Dropped, Part, Work, timed_out

C10D: Any = torch._C._distributed_c10d
# How many Works without Python references are kept alive for PyTorch's C++ code.
_KEPT_WORKS = 256


@dataclass
class Meeting:
    """What the ranks of a group agreed on when it was created."""

    store: Any
    served: Optional[ServedStore]  # the store that this rank serves for the group, if any
    control: Control
    seconds: float  # the group's timeout, in seconds
    make_channel: Callable[[int], Communicator]
    address_of: Callable[[int], Tuple[str, int]]
    # Creates a group of a subset of the ranks. Arguments: store, rank, size, timeout.
    create: Callable[[Any, int, int, timedelta], Any]


class Base(dist.ProcessGroup):
    """Any thread may call operations; they run in the order in which they are called."""

    supports_coalescing = False
    supports_splitting = True

    def __init__(self, comm: Communicator, meeting: Meeting) -> None:
        super().__init__(comm.rank, comm.size)
        self.comm = comm
        self.seconds = meeting.seconds
        self.make_channel = meeting.make_channel
        self.address_of = meeting.address_of
        self.messages = Messages(self, meeting.control)
        self.completer = Completer()
        self.is_shared = False  # True: another thread may start a receive during an operation
        self.label = "muster"  # for the profiler's ranges
        self.is_profiled = False  # the current operation has a profiler range
        self._meeting = meeting
        self._monitored = MonitoredBarrier(meeting.store, comm.rank, comm.size)
        self._lock: Any = threading.Lock()  # a communicator allows one call at a time
        self._works: List[Tuple[Work, bool]] = []  # pending Works, and whether each is a collective
        self._dropped = Dropped(_KEPT_WORKS)
        self._count = 0
        self._name, self._description = "muster", "undefined"
        self._is_split = False
        self._splits = 0

    # PyTorch's interface for a group.

    def getBackendName(self) -> str:
        """Never returns "gloo", even if the group replaces gloo, because DDP's logger would then
        cast this object to ProcessGroupGloo."""
        return "muster"

    name = _get_backend_name = getBackendName

    @property
    def group_name(self) -> str:
        return self._name

    def _set_group_name(self, name: str) -> None:
        self._name = name

    @property
    def group_desc(self) -> str:
        return self._description

    def _set_group_desc(self, description: str) -> None:
        self._description = description

    @property
    def _device_types(self) -> List[torch.device]:
        """The group's devices. Empty while PyTorch creates the group, because PyTorch would
        otherwise treat it as a built-in group."""
        return [torch.device("cpu")] if self._is_split or self in _groups() else []

    def _get_backend(self, device: Any) -> Base:
        return self

    get_backend = _get_backend

    def get_group_store(self) -> Any:
        return self._meeting.store

    def eager_connect_single_device(self, device: Any = None) -> None:
        """No-op: the ranks are connected from the start."""

    def perform_nocolor_split(self, device: Any = None) -> None:
        """No-op: ranks outside a new group are not involved in creating it."""

    @property
    def options(self) -> Any:
        """A copy with the current timeout."""
        return C10D.Backend.Options("muster", timedelta(seconds=self.seconds))

    def set_timeout(self, timeout: timedelta) -> None:
        self.seconds = timeout.total_seconds()

    _set_default_timeout = set_timeout

    def _get_sequence_number_for_group(self) -> int:
        return self._count

    def _set_sequence_number_for_group(self) -> None:
        pass

    def monitored_barrier(self, timeout: Optional[timedelta] = None,
                          wait_all_ranks: bool = False) -> None:
        if self.size() > 1:
            self._monitored.wait(timeout, wait_all_ranks)

    def split_group(self, ranks: Sequence[int], timeout: Optional[timedelta] = None,
                    opts: Any = None, group_name: Optional[str] = None,
                    group_desc: Optional[str] = None, device_types: Any = None) -> Any:
        """Returns a subgroup of these ranks; None on the other ranks. All ranks call it."""
        if self.rank() not in ranks:
            return None
        name = group_name or f"split {sorted(ranks)} {self._count}"
        made = self._meeting.create(dist.PrefixStore(f"{name}/", self._meeting.store),
                                    list(ranks).index(self.rank()), len(ranks),
                                    timeout or timedelta(seconds=self.seconds))
        made._is_split = True
        made._set_group_name(name)
        made._set_group_desc(group_desc or f"{self._description}:split")
        return made

    def split_backend(self, store: Any, ranks: Sequence[int], timeout: timedelta) -> Any:
        """For the compiled backend: like split_group, but over the new group's own store."""
        if self.rank() not in ranks:
            return None
        return self._meeting.create(store, list(ranks).index(self.rank()), len(ranks), timeout)

    def split_store(self, ranks: Sequence[int]) -> Any:
        """A store for a new group of these ranks, if PyTorch has not created one."""
        self._splits += 1
        return dist.PrefixStore(f"split {self._splits} {sorted(ranks)}/", self._meeting.store)

    def abort(self) -> None:
        """Aborts all operations on all ranks."""
        self.messages.abort("the process group was aborted")
        self.comm.abort("the process group was aborted")

    def shutdown(self) -> None:
        """Waits for pending operations, then leaves the group."""
        self.completer.close()
        self.messages.close()
        self.comm.close()
        if self._meeting.served is not None:
            self._meeting.served.close()

    # Used by the operations.

    def start(self, kind: int, source: Optional[torch.Tensor], target: torch.Tensor,
              opts: Options, *, op: Optional[str] = None, root: int = -1,
              scale: float = 1.0) -> Optional[Part]:
        """Starts a collective operation. If the caller would wait for it immediately, runs the
        operation in this call and returns None."""
        buffer = t.data_buffer if op is None else t.number_buffer
        waits = not getattr(opts, "asyncOp", True)
        is_async = not waits or self.is_shared
        call = c.CCall(sizeof(c.CCall), kind, c.OPS[op] if op else 0, root, 1 if is_async else 0,
                       NO_BUFFER if source is None else buffer(source), buffer(target),
                       int(seconds_of(opts) * 1e9), scale, None)
        try:
            with self._lock:
                self._count += 1
                part: Optional[Part] = self.comm.start(call, None, (source, target))
            if part is not None and waits:
                part.wait()
                part = None
        except errors.TimedOut as error:
            raise timed_out(error, seconds_of(opts) or self.seconds) from None
        return part

    def transfer(self, kind: int, tensor: torch.Tensor, rank: int) -> Part:
        """Starts a SEND or RECV without a tag."""
        buffer = t.data_buffer(tensor)
        source, target = (buffer, NO_BUFFER) if kind == c.SEND else (NO_BUFFER, buffer)
        call = c.CCall(sizeof(c.CCall), kind, 0, rank, 1, source, target, 0, 1.0, None)
        with self._lock:
            part: Part = self.comm.start(call, None, (tensor,))
        return part

    def kept(self, work: Work, *, is_collective: bool = False) -> Work:
        """Keeps the Work while it is pending. For PyTorch's C++ code, also keeps it after Python
        drops it."""
        work.dropped, work.seconds = self._dropped, work.seconds or self.seconds
        self._works = [each for each in self._works if not each[0].is_completed()]
        if not work.is_completed():
            self._works.append((work, is_collective))
        return work

    def under_way(self) -> List[Work]:
        """The pending collective operations."""
        return [work for work, is_collective in self._works if is_collective]


def _groups() -> Any:
    """All groups known to PyTorch."""
    world = getattr(dist.distributed_c10d, "_world", None)
    return dist.distributed_c10d._pg_map if world is None else world.pg_map
