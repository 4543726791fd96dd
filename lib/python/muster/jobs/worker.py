# SPDX-License-Identifier: Apache-2.0
"""Runs in each rank of muster.launch(function): fetches the function from the caller's socket,
calls it, and sends back the result or the exception.

The launcher starts this file by its path, so the rank's Python need not find the package. The
caller's sys.path arrives with the function. The caller imports the message format from this file.

A message is a type byte, the content's length, and the content:

    HELLO     worker → caller   attempt and rank, GREETING
    CONTEXT   caller → worker   pickled Context
    JOB       caller → worker   pickled (function, args, kwargs)
    RESULT    worker → caller   the function's return value, pickled
    FAILURE   worker → caller   pickled (traceback text, pickled exception or None)
"""
from __future__ import annotations

import collections
import contextlib
import functools
import importlib.machinery
import io
import json
import linecache
import os
import pickle
import socket
import struct
import sys
import time
import traceback
import types
from typing import Any, Callable, Dict, List, Optional, Tuple

HEADER = struct.Struct("!cQ")
HELLO, CONTEXT, JOB, RESULT, FAILURE = b"H", b"C", b"J", b"R", b"F"
GREETING = struct.Struct("!II")  # attempt, rank
TRACEBACK_MAX = 1 << 20  # characters of a traceback to send (its tail)
RECORDED_MAX = 1 << 16  # maximum characters of a message or traceback in the error file
CHUNK = 1 << 20  # bytes to request at once, regardless of the header
INTERRUPTED = 130  # exit code, as in a shell after SIGINT
_THIS_FILE = __file__  # prepare() changes __main__.__file__

# Context: sys.path; sources by file name; the file of the caller's __main__, and its module name
# if it was run with -m, else None.
Context = Tuple[List[str], Dict[str, List[str]], Optional[str], Optional[str]]


def pickler() -> Any:
    """cloudpickle, because it handles functions from __main__ and notebooks; otherwise PySpark's
    copy of it, if loaded; otherwise pickle."""
    try:
        import cloudpickle
    except ImportError:
        return sys.modules.get("pyspark.cloudpickle", pickle)
    return cloudpickle


def _reduce_code(reduce: Callable[[types.CodeType], Any], code: types.CodeType) -> Any:
    """Reduces a code object as cloudpickle does, but keeps its file name."""
    make, args, *more = reduce(code)
    name = make(*args).co_filename
    if name != code.co_filename:
        args = tuple(code.co_filename if isinstance(arg, str) and arg == name else arg
                     for arg in args)
    return (make, args, *more)


def dumps(value: Any, by: Any = None) -> bytes:
    """The pickled value. `by`: the module that pickles it (pickle or cloudpickle). cloudpickle
    3.1.3 replaces the file names of functions with "<dynamic-code>", but tracebacks, inspect and
    compilers need the real file names."""
    module = by or pickler()
    base = getattr(module, "CloudPickler", None)
    if base is None:
        plain: bytes = module.dumps(value)
        return plain
    reduce = functools.partial(_reduce_code, base.dispatch_table[types.CodeType])
    table = collections.ChainMap({types.CodeType: reduce}, base.dispatch_table)
    with io.BytesIO() as file:
        type("Pickler", (base,), {"dispatch_table": table})(file).dump(value)
        return file.getvalue()


def send(link: socket.socket, kind: bytes, data: bytes) -> None:
    """Sends one message."""
    link.sendall(HEADER.pack(kind, len(data)))
    link.sendall(data)


def read(link: socket.socket, length: int) -> bytearray:
    """Reads `length` bytes without a second copy. EOFError: the caller has exited."""
    data = bytearray(length)
    rest = memoryview(data)
    while rest:
        count = link.recv_into(rest[:CHUNK])
        if count == 0:
            raise EOFError("the process that called muster.launch has exited")
        rest = rest[count:]
    return data


def receive(link: socket.socket, wanted: bytes) -> bytearray:
    """The content of the next message, which must have this type."""
    kind, length = HEADER.unpack(read(link, HEADER.size))
    if kind != wanted:
        raise RuntimeError(f"the caller sent {kind!r} instead of {wanted!r}")
    return read(link, length)


def greet(link: socket.socket) -> None:
    """Sends this worker's attempt and rank."""
    attempt = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    send(link, HELLO, GREETING.pack(attempt, int(os.environ["RANK"])))


def prepare(context: Context) -> None:
    """Sets up the caller's modules and cell sources, because tracebacks, inspect and torch.compile
    need them. multiprocessing imports __main__'s file in the children that it spawns, so __main__
    gets the caller's file instead of this one."""
    path, sources, file, module = context
    sys.path[:] = path
    for name, lines in sources.items():
        linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
    main: Any = sys.modules["__main__"]
    main.__spec__ = importlib.machinery.ModuleSpec(module, None, origin=file) if module else None
    if file is not None:
        main.__file__ = file
    else:
        del main.__file__


def call(packed: bytearray) -> bytes:
    """Calls the function and returns its pickled result."""
    function, args, kwargs = pickle.loads(packed)
    if getattr(function, "__module__", None) == "__main__":
        # Plain pickle (torch.save, DataLoader) then finds the classes that the function uses.
        main = sys.modules["__main__"].__dict__
        for name, value in getattr(function, "__globals__", {}).items():
            main.setdefault(name, value)
    result = function(*args, **kwargs)
    try:
        return dumps(result)
    except Exception as error:
        raise TypeError(f"the function's result, a {type(result).__name__}, cannot be sent to the "
                        f"caller ({error}); return a value that can be pickled") from error


def packed_exception(error: BaseException) -> Optional[bytes]:
    """The pickled exception; None if it cannot be unpickled. Many exceptions can be pickled but
    not unpickled, because their constructors take different arguments."""
    try:
        data = dumps(error)
        pickle.loads(data)
    except Exception:
        return None
    return data


def traceback_of(error: BaseException) -> str:
    """The traceback as Python prints it, but without the frames of this file."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == _THIS_FILE:
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace))


def failure(error: BaseException) -> bytes:
    """The content of the FAILURE message for an exception."""
    return pickle.dumps((traceback_of(error)[-TRACEBACK_MAX:], packed_exception(error)))


def record(error: BaseException) -> None:
    """Reports the error to the launcher, like torch.distributed.elastic's `record`, for its report
    and for the callers on other nodes. Does not overwrite an error file of the function."""
    message = {"message": "".join(traceback.format_exception_only(type(error), error)).strip()
               [:RECORDED_MAX],
               "extraInfo": {"py_callstack": traceback_of(error)[-RECORDED_MAX:],
                             "timestamp": str(int(time.time()))}}
    path = os.environ.get("TORCHELASTIC_ERROR_FILE", "")
    with contextlib.suppress(OSError), open(path, "x", encoding="utf-8") as file:
        json.dump({"message": message}, file)


def exit_code(error: BaseException) -> int:
    """The exit code with which Python itself would exit after this exception."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if not isinstance(error, SystemExit):
        return 1
    if error.code is None:
        return 0
    return error.code & 0xff if isinstance(error.code, int) else 1


def main() -> None:
    """Runs one call. Exits with 0 if the function returned."""
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(sys.argv.pop(1))
        greet(link)
        prepare(pickle.loads(receive(link, CONTEXT)))
        packed = receive(link, JOB)
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
