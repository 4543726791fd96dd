# SPDX-License-Identifier: Apache-2.0
"""The communication between the ranks of one epoch."""
from __future__ import annotations

import array
import os
import pickle
from typing import Any, List, Optional

from ..communicator import Communicator
from . import _sockets
from ._news import Members

# Ranks arrive late if they are in a long step without communication. muster reports ranks that
# hang, so this limit in seconds only has to end at some time.
PATIENCE = 24 * 3600.0


class Link:
    """The training thread calls all methods except cut(), which any thread may call until close().
    connect() blocks until all ranks have called it."""

    comm: Optional[Communicator] = None

    def connect(self) -> None:
        raise NotImplementedError

    def cut(self) -> None:
        """Makes current and later operations of this process fail. May be called repeatedly."""
        raise NotImplementedError

    def close(self, is_lost: bool) -> None:
        """is_lost: operations may be pending that will never complete."""
        raise NotImplementedError

    def barrier(self) -> None:
        raise NotImplementedError

    def gather(self, number: int) -> List[int]:
        """The numbers of all ranks, in rank order."""
        raise NotImplementedError

    def broadcast(self, value: Any, root: int) -> Any:
        """Returns the root's value on every rank. The value must be picklable."""
        raise NotImplementedError


class CommunicatorLink(Link):
    """A muster.Communicator. backend: as in Communicator.create()."""

    def __init__(self, members: Members, backend: Optional[str]) -> None:
        self._members, self._backend = members, backend or "auto"
        self._before = _sockets.inodes()

    def connect(self) -> None:
        to, options = self._members, {"backend": self._backend, "init_timeout": PATIENCE}
        if to.store is not None:
            job = os.environ.get("TORCHELASTIC_RUN_ID", "job")
            self.comm = Communicator.create(to.store, to.rank, to.size, to.epoch, job,
                                            name="elastic", **options)  # type: ignore[arg-type]
        elif to.size > 1:
            self.comm = Communicator.from_env(name="elastic", backend=self._backend)  # type: ignore
        else:
            self.comm = Communicator.create(None, 0, 1)

    def cut(self) -> None:
        if self.comm is not None:
            self.comm.abort("another rank was lost")
        else:  # connect() has no handle to abort yet
            _sockets.shut_down(_sockets.inodes() - self._before)

    def close(self, is_lost: bool) -> None:
        if self.comm is not None:
            self.comm.close()

    def barrier(self) -> None:
        self._open().barrier(timeout=PATIENCE)

    def gather(self, number: int) -> List[int]:
        numbers = array.array("q", [0] * self._members.size)
        self._open().all_gather(array.array("q", [number]), numbers, timeout=PATIENCE)
        return list(numbers)

    def broadcast(self, value: Any, root: int) -> Any:
        is_root = self._members.rank == root
        data = bytearray(pickle.dumps(value, 4) if is_root else b"")
        size = array.array("q", [len(data)])
        self._open().broadcast(size, root, timeout=PATIENCE)
        data = data if is_root else bytearray(size[0])
        self._open().broadcast(data, root, timeout=PATIENCE)
        return value if is_root else pickle.loads(bytes(data))

    def _open(self) -> Communicator:
        assert self.comm is not None
        return self.comm
