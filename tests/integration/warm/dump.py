# SPDX-License-Identifier: Apache-2.0
"""What a worker sees of itself, as JSON in the file given as the first argument."""

import json
import os
import re
import resource
import signal
import sys
import threading

import __main__


def text(value):
    if value is sys.meta_path:  # a warm rank 0 has one more, which finds nothing
        value = [each for each in value if type(each).__module__ != "muster_zygote"]
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def stream(file):
    raw = getattr(file.buffer, "raw", file.buffer)
    return [type(file).__name__, type(file.buffer).__name__, text(raw), file.encoding, file.errors,
            file.line_buffering, file.write_through, file.mode, file.name, file.seekable(),
            file.isatty(), file.newlines,
            os.readlink(f"/proc/self/fd/{file.fileno()}").partition(":")[0]]


def status(*names):
    with open("/proc/self/status") as file:
        lines = (line.split(":", 1) for line in file)
        return {name: value.split() for name, value in lines if name in names}


def descriptors():
    with os.scandir("/proc/self/fd") as entries:
        return sorted(int(entry.name) for entry in entries)


def command_line():
    with open("/proc/self/cmdline") as file:
        return file.read()


seen = {
    "main": {name: text(value) for name, value in sorted(vars(__main__).items())
             if name.startswith("__") and name not in ("__main__", "__builtins__")},
    "builtins": type(__builtins__).__name__,
    "main is us": sys.modules["__main__"].__dict__ is globals(),
    "sys": {name: text(getattr(sys, name, None)) for name in
            ("argv", "path", "flags", "orig_argv", "executable", "prefix", "warnoptions",
             "meta_path", "path_hooks", "dont_write_bytecode", "pycache_prefix", "excepthook")
            if name != "excepthook"},
    "streams": [stream(file) for file in (sys.stdin, sys.stdout, sys.stderr)],
    "same streams": [sys.stdin is sys.__stdin__, sys.stdout is sys.__stdout__,
                     sys.stderr is sys.__stderr__],
    "environment": {name: value for name, value in sorted(os.environ.items())
                    if name not in ("MASTER_PORT", "MUSTER_AGENT", "TORCHELASTIC_ERROR_FILE",
                                     "TORCHELASTIC_RUN_ID", "MUSTER_TEST_TOKEN")},
    "descriptors": descriptors(),
    "limits": {name: resource.getrlimit(getattr(resource, name)) for name in dir(resource)
               if name.startswith("RLIMIT_")},
    "affinity": sorted(os.sched_getaffinity(0)),
    "nice": os.nice(0),
    "umask": os.umask(0o22),
    "folder": os.getcwd(),
    "leads": [os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid()],
    "status": status("Name", "SigBlk", "SigIgn", "SigCgt", "SigPnd", "ShdPnd", "Threads", "Umask",
                     "Uid", "Gid", "Groups", "NoNewPrivs", "Seccomp", "CapEff"),
    "command line": command_line(),
    "threads": [threading.current_thread().name,
                threading.main_thread() is threading.current_thread(),
                threading.main_thread().native_id == threading.get_native_id() == os.getpid()],
    "handlers": {name: text(signal.getsignal(getattr(signal, name)))
                 for name in ("SIGINT", "SIGPIPE", "SIGTERM", "SIGCHLD", "SIGXFSZ", "SIGUSR1")},
    "names": sorted(name for name in globals() if not name.startswith("__")),
}
with open(sys.argv[1] + os.environ["RANK"], "w") as file:
    json.dump(seen, file, indent=1)
