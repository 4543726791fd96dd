# SPDX-License-Identifier: Apache-2.0
"""Control connections, on which ranks announce messages to each other. A rank connects to each rank
that it receives from. The sender announces its messages on that connection, and receives GO when it
may send."""
from __future__ import annotations

import hmac
import selectors
import socket
import struct
import threading
from typing import Any, Callable, Dict, List, Optional, Protocol, Tuple

ANNOUNCE, GO = 1, 2
# A control frame: kind, tag, count.
_FRAME = struct.Struct("!BqI")
# The first bytes on a connection: the group's secret and the rank that connects.
TOKEN_BYTES = 32
_HELLO = struct.Struct(f"!{TOKEN_BYTES}sI")
CONNECT_TIMEOUT = 30.0  # seconds
_READ_BYTES = 1 << 16
# Maximum number of connections that have not sent HELLO. Beyond this limit, the oldest such
# connection is closed, to limit the use of descriptors.
_MAX_STRANGERS = 64


class Listener(Protocol):
    """Callbacks for events on the connections. They run on the control thread."""

    def subscribed(self, rank: int) -> None: ...

    def heard(self, rank: int, kind: int, tag: int, count: int) -> bool:
        """Returns False if the frame is invalid; the connection is then closed."""

    def left(self, rank: int, is_source: bool) -> None: ...


class _Connection:
    def __init__(self, at: socket.socket, rank: Optional[int]) -> None:
        at.setblocking(False)
        self.at, self.rank = at, rank  # rank: None until HELLO arrives
        self.is_source = rank is not None  # this rank opened the connection
        self.unread, self.unsent = bytearray(), bytearray()


class Control:
    """The control connections of one rank in a group. serve() listens; the first connect() or
    start() starts the thread. Thread-safe."""

    def __init__(self, rank: int, size: int, token: bytes) -> None:
        self._rank, self._size, self._token = rank, size, token
        self._lock = threading.Lock()
        self._server: Optional[socket.socket] = None
        self._selector: Optional[selectors.BaseSelector] = None
        self._sources: Dict[int, _Connection] = {}  # ranks that announce to this rank
        self._targets: Dict[int, _Connection] = {}  # ranks that this rank announces to
        self._strangers: List[_Connection] = []
        self._wake: Optional[socket.socket] = None
        self._is_closed = False
        self.listener: Any = None  # a Listener, set before the thread starts

    def serve(self, address: str, ports: Tuple[int, int]) -> int:
        """Listens on the first free port of the range; (0, 0) means any. Returns the port."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        for port in range(ports[0], ports[1] + 1):
            server = socket.socket(family, socket.SOCK_STREAM)
            try:
                server.bind((address, port))
                server.listen(max(self._size, _MAX_STRANGERS))
            except OSError:
                server.close()
                continue
            server.setblocking(False)
            self._server = server
            return int(server.getsockname()[1])
        raise OSError(f"no free port in {ports[0]}-{ports[1]} on {address}")

    def start(self) -> None:
        """Starts the thread, so that it accepts connections."""
        with self._lock:
            if self._selector is None and not self._is_closed:
                self._selector = selectors.DefaultSelector()
                wake, self._wake = socket.socketpair()
                self._selector.register(wake, selectors.EVENT_READ, "wake")
                if self._server is not None:
                    self._selector.register(self._server, selectors.EVENT_READ, "accept")
                threading.Thread(target=self._run, args=(self._selector, wake), daemon=True,
                                 name="muster-messages").start()

    def connect(self, rank: int, address: Callable[[], Tuple[str, int]]) -> None:
        """Connects to a rank, which then announces its messages. A second call does nothing."""
        self.start()
        with self._lock:
            if rank in self._sources or self._is_closed:
                return
            at = socket.create_connection(address(), CONNECT_TIMEOUT)
            at.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            at.sendall(_HELLO.pack(self._token, self._rank))
            self._sources[rank] = self._register(at, rank)

    def announce(self, rank: int, tag: int, count: int) -> None:
        self._send(self._targets.get(rank), ANNOUNCE, tag, count)

    def go(self, rank: int, tag: int) -> None:
        self._send(self._sources.get(rank), GO, tag, 1)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            if self._wake is not None:
                self._wake.close()  # the thread then exits and closes the connections
            elif self._server is not None:
                self._server.close()

    def _send(self, to: Optional[_Connection], kind: int, tag: int, count: int) -> None:
        with self._lock:
            if to is None or self._is_closed:
                return
            to.unsent += _FRAME.pack(kind, tag, count)
            self._flush(to)

    def _flush(self, connection: _Connection) -> None:
        """Sends as much as the kernel accepts; the thread sends the remaining bytes."""
        try:
            while connection.unsent:
                del connection.unsent[:connection.at.send(connection.unsent)]
        except BlockingIOError:
            pass
        except OSError:
            connection.unsent.clear()  # the next read fails too and drops the connection
        if self._selector is not None and connection.at.fileno() >= 0:
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.unsent else 0)
            if self._selector.get_key(connection.at).events != events:
                self._selector.modify(connection.at, events, connection)

    def _register(self, at: socket.socket, rank: Optional[int]) -> _Connection:
        assert self._selector is not None
        connection = _Connection(at, rank)
        self._selector.register(at, selectors.EVENT_READ, connection)
        return connection

    # The following methods run in the thread.

    def _run(self, selector: selectors.BaseSelector, wake: socket.socket) -> None:
        while not self._is_closed:
            for key, events in selector.select():
                if key.data == "accept":
                    self._accept()
                elif isinstance(key.data, _Connection):
                    if events & selectors.EVENT_WRITE:
                        with self._lock:
                            self._flush(key.data)
                    if events & selectors.EVENT_READ:
                        self._read(key.data)
        with self._lock:
            for connection in [*self._sources.values(), *self._targets.values(), *self._strangers]:
                connection.at.close()
            wake.close()
            if self._server is not None:
                self._server.close()
            selector.close()

    def _accept(self) -> None:
        assert self._server is not None
        try:
            at, _ = self._server.accept()
        except OSError:
            return
        with self._lock:
            self._strangers.append(self._register(at, None))
            if len(self._strangers) > _MAX_STRANGERS:
                self._drop(self._strangers[0])

    def _read(self, connection: _Connection) -> None:
        try:
            data = connection.at.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        connection.unread += data
        if not data or not self._understand(connection):
            with self._lock:
                self._drop(connection)
            if connection.rank is not None:
                self.listener.left(connection.rank, connection.is_source)

    def _understand(self, connection: _Connection) -> bool:
        unread = connection.unread
        if connection.rank is None:
            if len(unread) < _HELLO.size:
                return True
            token, rank = _HELLO.unpack_from(unread)
            with self._lock:
                if not (hmac.compare_digest(token, self._token) and rank < self._size and
                        rank != self._rank and rank not in self._targets):
                    return False
                del unread[:_HELLO.size]
                self._strangers.remove(connection)
                connection.rank = rank
                self._targets[rank] = connection
            self.listener.subscribed(rank)
        while len(unread) >= _FRAME.size:
            kind, tag, count = _FRAME.unpack_from(unread)
            del unread[:_FRAME.size]
            wanted = ANNOUNCE if connection.is_source else GO
            if kind != wanted or not self.listener.heard(connection.rank, kind, tag, count):
                return False
        return True

    def _drop(self, connection: _Connection) -> None:
        assert self._selector is not None
        if connection.at.fileno() < 0:
            return  # already dropped
        self._selector.unregister(connection.at)
        connection.at.close()
        if connection in self._strangers:
            self._strangers.remove(connection)
