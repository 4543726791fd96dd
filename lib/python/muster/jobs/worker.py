# SPDX-License-Identifier: Apache-2.0
"""What each rank of muster.launch(function) runs: it fetches the function from the caller's socket,
calls it, and sends back what it returned or raised.

The launcher starts this file by its path, so that the rank's Python need not find the package; the
caller's sys.path comes with the function. The caller imports the message format from here.

A message is a byte for its kind, its length, and so many bytes:

    HELLO     worker → caller   attempt and rank, _HELLO
    JOB       caller → worker   pickled (sys.path, sources, pickled (function, args, kwargs))
    RESULT    worker → caller   what the function returned, pickled
    FAILURE   worker → caller   pickled (traceback text, pickled exception or None)
"""
from __future__ import annotations

import contextlib
import json
import linecache
import os
import pickle
import socket
import struct
import sys
import time
import traceback
from typing import Any, Dict, List, Optional, Tuple

HEADER = struct.Struct("!cQ")
HELLO, JOB, RESULT, FAILURE = b"H", b"J", b"R", b"F"
GREETING = struct.Struct("!II")  # attempt, rank
TRACEBACK_MAX = 1 << 20  # characters of a traceback that are sent: its end
RECORDED_MAX = 1 << 16  # characters of a message, and of a traceback, for the launcher
CHUNK = 1 << 20  # bytes that are asked for at once, whatever a header announces
INTERRUPTED = 130  # exit code, as a shell has it for SIGINT


def pickler() -> Any:
    """cloudpickle, which also takes functions of __main__ and notebooks; else the copy that
    PySpark brings, if it is in use; else pickle."""
    try:
        import cloudpickle
    except ImportError:
        return sys.modules.get("pyspark.cloudpickle", pickle)
    return cloudpickle


def send(link: socket.socket, kind: bytes, data: bytes) -> None:
    """Sends one message."""
    link.sendall(HEADER.pack(kind, len(data)))
    link.sendall(data)


def read(link: socket.socket, length: int) -> bytes:
    """So many bytes; EOFError where the caller has gone."""
    parts = bytearray()
    while len(parts) < length:
        part = link.recv(min(CHUNK, length - len(parts)))
        if not part:
            raise EOFError("the process that called muster.launch has gone")
        parts += part
    return bytes(parts)


def fetch(link: socket.socket) -> Tuple[List[str], Dict[str, List[str]], bytes]:
    """Says who we are, and returns the JOB: sys.path, sources, pickled call."""
    attempt = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    send(link, HELLO, GREETING.pack(attempt, int(os.environ["RANK"])))
    kind, length = HEADER.unpack(read(link, HEADER.size))
    if kind != JOB:
        raise RuntimeError(f"the caller sent {kind!r} instead of a job")
    job: Tuple[List[str], Dict[str, List[str]], bytes] = pickle.loads(read(link, length))
    return job


def prepare(path: List[str], sources: Dict[str, List[str]]) -> None:
    """What the function may rely on: the caller's modules, and the text of its cells, which
    tracebacks, inspect and torch.compile ask for."""
    sys.path[:] = path
    for name, lines in sources.items():
        linecache.cache[name] = (sum(map(len, lines)), None, lines, name)


def call(packed: bytes) -> bytes:
    """Calls the function; its result, pickled."""
    function, args, kwargs = pickle.loads(packed)
    if getattr(function, "__module__", None) == "__main__":
        # So that plain pickle (torch.save, DataLoader) finds the classes that the function uses.
        main = sys.modules["__main__"].__dict__
        for name, value in getattr(function, "__globals__", {}).items():
            main.setdefault(name, value)
    result = function(*args, **kwargs)
    try:
        data: bytes = pickler().dumps(result)
    except Exception as error:
        raise TypeError(f"the function's result, a {type(result).__name__}, cannot be sent to the "
                        f"caller ({error}); return what pickle takes") from error
    return data


def packed_exception(error: BaseException) -> Optional[bytes]:
    """The exception, pickled; None where it would not arrive: many can be written, but not read
    again, since their constructors want other arguments."""
    try:
        data: bytes = pickler().dumps(error)
        pickle.loads(data)
    except Exception:
        return None
    return data


def traceback_of(error: BaseException) -> str:
    """As Python prints it, without the frames of this file."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace))


def failure(error: BaseException) -> bytes:
    """The FAILURE for an exception."""
    return pickle.dumps((traceback_of(error)[-TRACEBACK_MAX:], packed_exception(error)))


def record(error: BaseException) -> None:
    """Tells the launcher, as torch.distributed.elastic's `record` does: for its report, and for the
    callers on other nodes. What the function has recorded itself stays."""
    message = {"message": "".join(traceback.format_exception_only(type(error), error)).strip()
               [:RECORDED_MAX],
               "extraInfo": {"py_callstack": traceback_of(error)[-RECORDED_MAX:],
                             "timestamp": str(int(time.time()))}}
    path = os.environ.get("TORCHELASTIC_ERROR_FILE", "")
    with contextlib.suppress(OSError), open(path, "x", encoding="utf-8") as file:
        json.dump({"message": message}, file)


def exit_code(error: BaseException) -> int:
    """The worker's exit code after an exception, as Python itself would choose it."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if not isinstance(error, SystemExit):
        return 1
    if error.code is None:
        return 0
    return error.code & 0xff if isinstance(error.code, int) else 1


def main() -> None:
    """One call; the exit code is 0 if it returned."""
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(sys.argv.pop(1))
        path, sources, packed = fetch(link)
        prepare(path, sources)
        try:
            kind, data, code = RESULT, call(packed), 0
        except BaseException as error:
            code = exit_code(error)
            kind, data = (FAILURE, failure(error)) if code else (RESULT, pickle.dumps(None))
            if code:
                record(error)
        send(link, kind, data)
    sys.exit(code)


if __name__ == "__main__":
    main()
