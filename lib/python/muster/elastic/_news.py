# SPDX-License-Identifier: Apache-2.0
"""Receives the job's rounds and failures in a thread, and cuts the communication of a round as soon
as one of its ranks is lost."""
from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
from typing import Callable, Optional, Tuple, Union

from .. import _channel
from ._record import Record

# Connections that this process opens while it still enters a lost round must be cut as well, so the
# thread repeats the cut at this interval.
CUT_AGAIN_SECONDS = 0.1


class Reset(Exception):
    """State.commit() raises it if another rank was lost. Do not catch it: it must reach
    elastic.run, which continues in the next round."""


class LauncherGone(OSError):
    """The launcher closed the connection."""


@dataclasses.dataclass(frozen=True)
class Members:
    """The ranks of a round, as seen by this rank. store: the address and port of the job's store;
    None if only the environment describes the job."""

    epoch: int
    rank: int
    size: int
    store: Optional[Tuple[str, int]]


class News:
    """This process's subscription. The constructor and close() belong to the thread that trains,
    like all other methods; the object's own thread calls `cut`."""

    keeps_records = True

    def __init__(self, connection: _channel.Connection) -> None:
        self._connection = connection
        self.record = None if connection.record is None else Record(connection.record)
        self._changed = threading.Condition()
        self._members: Optional[Members] = None  # of the newest round
        self._lost = -1  # the newest epoch that has lost a rank
        self._epoch = -1  # the epoch that `_cut` belongs to
        self._cut: Optional[Callable[[], None]] = None
        self._is_closed = False
        connection.send({"type": "subscribe", "mends": True})
        self._thread = threading.Thread(target=self._listen, daemon=True, name="muster-elastic")
        self._thread.start()

    def newest(self, after: int) -> Members:
        """Waits for a round with an epoch after this one. LauncherGone: none can arrive."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._is_newer(after))
            if self._members is None or not self._is_newer(after):
                raise LauncherGone("muster closed the connection to this worker")
            return self._members

    def is_over(self, epoch: int) -> bool:
        """Whether a rank of this epoch is lost, or a later epoch exists."""
        return self._lost >= epoch or self._is_newer(epoch)

    def wait_over(self, epoch: int, seconds: float) -> bool:
        """Waits up to `seconds` until is_over()."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self.is_over(epoch), seconds)
            return self.is_over(epoch)

    def enter(self, epoch: int, cut: Callable[[], None]) -> None:
        """From now until leave(), calls `cut` when this epoch is over. Reports that this rank waits
        until all ranks have the state. Reset: the epoch is over."""
        with self._changed:
            if self.is_over(epoch):
                raise Reset(f"a rank was lost in epoch {epoch}")
            self._epoch, self._cut = epoch, cut
        self._connection.send({"type": "heard", "arrived": True})
        os.environ["MUSTER_EPOCH"] = str(epoch)  # for muster.worker and child processes

    def leave(self) -> None:
        """After this call, `cut` is not running and will not run."""
        with self._changed:
            self._cut = None

    def ready(self, epoch: int) -> None:
        """Reports that this rank has the state and works in this epoch. OSError: not sent."""
        if not self._connection.send({"type": "ready", "epoch": epoch}):
            raise OSError("cannot send to muster: it does not read this worker's messages")

    def finish(self) -> None:
        """Reports that this rank has left the function, so it cannot continue after a loss."""
        self._connection.send({"type": "subscribe", "mends": False})

    def close(self) -> None:
        self._connection.shut_down()
        self._thread.join()
        self._connection.close()

    def _is_newer(self, epoch: int) -> bool:
        return self._members is not None and self._members.epoch > epoch

    # The following methods run in the thread.

    def _listen(self) -> None:
        try:
            while True:
                frame = self._connection.next(CUT_AGAIN_SECONDS if self._must_cut() else None)
                with self._changed:  # the lock also keeps a cut out of the next epoch
                    if frame is not None:
                        self._receive(frame)
                    if self._cut is not None and self._must_cut():
                        with contextlib.suppress(Exception):  # it is repeated
                            self._cut()
                    self._changed.notify_all()
        except (OSError, ValueError, KeyError, TypeError):  # closed, or not the protocol
            pass
        finally:
            with self._changed:
                self._is_closed = True
                self._changed.notify_all()

    def _must_cut(self) -> bool:
        return self._cut is not None and self.is_over(self._epoch)

    def _receive(self, frame: _channel.Frame) -> None:
        """A rank that exited without an error is not replaced, so its exit ends no epoch. muster
        kills a process that does not confirm the news of a loss with `heard`."""
        if frame["type"] == "gone" and frame["failed"]:
            self._connection.send({"type": "heard"})
            self._lost = max(self._lost, frame["epoch"])
        elif frame["type"] == "round":
            if self._members is not None:
                self._connection.send({"type": "heard"})
            self._members = Members(frame["epoch"], frame["rank"], frame["world_size"],
                                    (frame["store_address"], frame["store_port"]))


class NoNews:
    """Replaces News in programs that no launcher supervises: one round, which is never over."""

    record: Optional[Record] = None

    keeps_records = False

    def newest(self, after: int) -> Members:  # pylint: disable=unused-argument
        """The only round, from the environment. Without RANK, the job is this process."""
        rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
        return Members(0, rank, size, None)

    def is_over(self, epoch: int) -> bool:  # pylint: disable=unused-argument
        return False

    def wait_over(self, epoch: int, seconds: float) -> bool:  # pylint: disable=unused-argument
        return False

    def enter(self, epoch: int, cut: Callable[[], None]) -> None:
        """No-op, like the following methods."""

    def leave(self) -> None:
        pass

    def ready(self, epoch: int) -> None:
        pass

    def finish(self) -> None:
        pass

    def close(self) -> None:
        pass


AnyNews = Union[News, NoNews]


def open_news() -> AnyNews:
    """Subscribes to the launcher's news. OSError: muster started this process, but rejects it."""
    if not os.environ.get(_channel.VARIABLE):
        return NoNews()
    return News(_channel.Connection(wants_record=True))
