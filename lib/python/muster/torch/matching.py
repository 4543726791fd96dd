# SPDX-License-Identifier: Apache-2.0
"""Matches sends with receives. Pure: no threads or sockets. Effects are appended to a list."""
from __future__ import annotations

import collections
from dataclasses import dataclass
from typing import Any, Deque, Dict, List, Optional, Set, Tuple, Union


@dataclass(frozen=True)
class Announce:
    """Notifies `rank` that this rank has `count` messages with this tag to send to `rank`."""

    rank: int
    tag: int
    count: int


@dataclass(frozen=True)
class Go:
    """Notifies `rank` that a receive has been posted for its next message with this tag."""

    rank: int
    tag: int


@dataclass(frozen=True)
class Start:
    """The message can now be sent to, or received from, `rank`."""

    message: Any
    rank: int


Effect = Union[Announce, Go, Start]
Address = Tuple[int, int]  # rank, tag


class Matching:
    """The matching state of one rank. Messages with tag 0 to and from specific ranks start
    immediately. Messages with other tags start when the receiver has seen the announcement and
    sends Go, so messages with different tags can arrive out of order. A receive from any source
    matches the first rank that announced a message. Messages are announced only to ranks that have
    connected (subscribed). Messages are opaque objects; Start contains the one that can start."""

    def __init__(self) -> None:
        self.effects: List[Effect] = []
        self._subscribers: Set[int] = set()
        self._unannounced: Dict[Address, int] = collections.Counter()
        self._sends: Dict[Address, Deque[Any]] = collections.defaultdict(collections.deque)
        # Number of messages that are announced but not yet received. For tag 0 it is negative if
        # messages were received before they were announced.
        self._arrived: Dict[Address, int] = collections.Counter()
        self._waiting: Dict[int, List[Tuple[Optional[int], Any]]] = {}  # by tag; no list is empty

    def sent(self, rank: int) -> None:
        """Called after the caller has started to send a message with tag 0."""
        self._announce(rank, 0)

    def send(self, rank: int, tag: int, message: Any) -> None:
        """Queues and announces a message with a tag other than 0."""
        self._sends[rank, tag].append(message)
        self._announce(rank, tag)

    def receives_at_once(self, rank: int) -> bool:
        """Whether the caller may start a receive with tag 0 from this rank directly. False while
        an earlier receive might match the rank's next message."""
        if 0 in self._waiting:
            return False
        self._arrived[rank, 0] -= 1
        return True

    def receive(self, rank: Optional[int], tag: int, message: Any) -> None:
        """rank: None for any rank. The caller has connected to the rank, or to all ranks."""
        self._waiting.setdefault(tag, []).append((rank, message))
        sources = [rank] if rank is not None else [source for source, of in list(self._arrived)
                                                   if of == tag]
        for source in sources:
            self._match(source, tag)

    def subscribed(self, rank: int) -> None:
        """Called when the rank has requested announcements."""
        self._subscribers.add(rank)
        for address in [each for each in self._unannounced if each[0] == rank]:
            self.effects.append(Announce(rank, address[1], self._unannounced.pop(address)))

    def announced(self, rank: int, tag: int, count: int) -> None:
        self._arrived[rank, tag] += count
        self._match(rank, tag)

    def go(self, rank: int, tag: int) -> bool:
        """Called when the rank is ready for the next message with this tag. Returns False if there
        is no such message, which means that the peer violated the protocol."""
        waiting = self._sends.get((rank, tag))
        if waiting is None:
            return False
        self.effects.append(Start(waiting.popleft(), rank))
        if not waiting:
            del self._sends[rank, tag]
        return True

    def left(self, rank: int, size: int, gone: Set[int]) -> List[Any]:
        """Called when the rank's connection has closed. The connections of the ranks in `gone` have
        closed too. Removes and returns the receives that can no longer match."""
        lost: List[Any] = []
        for tag, entries in list(self._waiting.items()):
            kept = []
            for source, message in entries:
                if source == rank or (source is None and len(gone) >= size - 1):
                    lost.append(message)
                else:
                    kept.append((source, message))
            self._keep(tag, kept)
        return lost

    def refused(self, rank: int) -> List[Any]:
        """Called when the rank accepts no more messages. Removes and returns the messages that wait
        for its Go."""
        self._subscribers.discard(rank)
        return [message for address in [each for each in self._sends if each[0] == rank]
                for message in self._sends.pop(address)]

    def take_effects(self) -> List[Effect]:
        effects, self.effects = self.effects, []
        return effects

    def _announce(self, rank: int, tag: int) -> None:
        if rank in self._subscribers:
            self.effects.append(Announce(rank, tag, 1))
        else:
            self._unannounced[rank, tag] += 1

    def _match(self, rank: int, tag: int) -> None:
        waiting = self._waiting.get(tag, [])
        at = 0
        while at < len(waiting) and self._arrived[rank, tag] > 0:
            source, message = waiting[at]
            if source is not None and source != rank:
                at += 1
                continue
            del waiting[at]
            self._arrived[rank, tag] -= 1
            if tag != 0:
                self.effects.append(Go(rank, tag))
            self.effects.append(Start(message, rank))
        self._keep(tag, waiting)

    def _keep(self, tag: int, waiting: List[Tuple[Optional[int], Any]]) -> None:
        if waiting:
            self._waiting[tag] = waiting
        else:
            self._waiting.pop(tag, None)
