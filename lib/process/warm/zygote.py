# SPDX-License-Identifier: Apache-2.0
"""The zygote: imports the workers' modules once, then forks each worker from itself. The launcher
starts it as `python -u -c SOURCE KIND MODULES PROGRAM [ARGUMENT...]`, with a SEQPACKET socket as
standard input (the peer is in zygote.cpp) and comma-separated MODULES. This file is the last of the
zygote*.py files, which are concatenated and embedded in the launcher's binary, so the user's Python
needs none of our packages. A forked worker is a child of the launcher, not of this process.
Programs should notice no difference from a cold start; ZYGOTE.md lists what is the same and what is
not. Requires Linux and CPython 3.9 or later."""

import array
import atexit
import ctypes
import gc
import os
import platform
import select
import signal
import socket
import sys
import time

# CLOCK_REALTIME_COARSE of linux/time.h, which the time module lacks. File timestamps use this
# clock, which is up to 10 ms behind time.time_ns().
REALTIME_COARSE = 5

MESSAGE_BYTES = 64
FILES = 5  # per request: the worker as text, three streams, the go-ahead pipe

FOR_OTHERS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1,
              signal.SIGUSR2}
CLONE_PARENT = 0x00008000
CLONE_CHILD_CLEARTID = 0x00200000
CLONE_CHILD_SETTID = 0x01000000
# Numbers of clone, set_robust_list and get_robust_list; True if clone takes the child's tid last.
SYSTEM_CALLS = {"x86_64": (56, 273, 274, False), "aarch64": (220, 99, 100, True)}

libc.syscall.restype = ctypes.c_long
libc.pthread_self.restype = ctypes.c_void_p


# -- forking -------------------------------------------------------------------------------------


def tid_address():
    """The address where glibc and musl store the main thread's ID; 0 if it is not found. On
    fork(), the kernel stores the child's ID there. The libraries use it for locks that record their
    owner."""
    own = os.getpid()
    start = libc.pthread_self()
    words = (ctypes.c_int * 512).from_address(start)
    return next((start + 4 * i for i, word in enumerate(words) if word == own), 0)


def robust_list():
    """The address and length of the list of locks that the kernel releases when a thread dies."""
    _, _, get_robust_list, _ = SYSTEM_CALLS[platform.machine()]
    head, length = ctypes.c_void_p(), ctypes.c_size_t()
    result = libc.syscall(
        ctypes.c_long(get_robust_list), ctypes.c_long(0), ctypes.byref(head), ctypes.byref(length)
    )
    return (head, length) if result == 0 else None


def clone_sibling(tid, robust):
    """Like fork(), but the child's parent is our parent. Returns 0 in the child. Raises OSError."""
    clone, set_robust_list, _, tid_is_last = SYSTEM_CALLS[platform.machine()]
    flags = CLONE_PARENT | signal.SIGCHLD
    if tid:
        flags |= CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID
    none, address = ctypes.c_long(0), ctypes.c_long(tid)
    last = (none, address) if tid_is_last else (address, none)
    ctypes.pythonapi.PyOS_BeforeFork()
    pid = libc.syscall(ctypes.c_long(clone), ctypes.c_long(flags), none, none, *last)
    if pid == 0:
        if robust:
            libc.syscall(ctypes.c_long(set_robust_list), *robust)
        ctypes.pythonapi.PyOS_AfterFork_Child()
        return 0
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError("cannot fork")
    return pid


# -- the launcher's requests ---------------------------------------------------------------------


class Request:
    """One worker: its command line, environment and streams."""

    def __init__(self, files):
        text, self.stdin, self.stdout, self.stderr, self.go_ahead = files
        with open(text, "rb") as file:
            fields = file.read().split(b"\0")
        count = int(fields[0])
        self.cpus, self.memory = numbers_of(fields[1]), numbers_of(fields[2])
        self.argv = [os.fsdecode(field) for field in fields[3 : count + 3]]
        self.environment = variables_of(fields[count + 3 : -1])

    def close(self):
        for file in (self.stdin, self.stdout, self.stderr, self.go_ahead):
            os.close(file)


def numbers_of(text):
    """Parses the kernel's list format, such as "0-3,8"."""
    ends = [[int(end) for end in part.split(b"-")] for part in text.split(b",") if part]
    return {number for part in ends for number in range(part[0], part[-1] + 1)}


def receive(control):
    """Returns the kind of a message and its descriptors. The kind is empty if the launcher has
    exited."""
    size = array.array("i").itemsize
    data, ancillary, _, _ = control.recvmsg(
        MESSAGE_BYTES, socket.CMSG_LEN(FILES * size), socket.MSG_CMSG_CLOEXEC
    )
    files = array.array("i")
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            files.frombytes(content[: len(content) - len(content) % size])
    return data, list(files)


def answer(control, text):
    control.send(os.fsencode(text)[:4096])


def is_readable(control, timeout):
    return bool(select.select([control], (), (), timeout)[0])


def serve(control, imported, *of_launcher):
    """Serves requests until the launcher exits. While it waits, it imports the modules that the
    workers import. Returns only in a forked worker, with its request."""
    tid, robust = tid_address(), robust_list()
    is_first = True  # the modules were just imported, so they are current
    learned = imported.learned
    while True:
        if not is_readable(control, learned.pause):
            if learned.look():
                why = imported.go_on(lambda: is_readable(control, 0))
                if why:
                    answer(control, why)
                    learned.end_attempt()
            continue
        kind, files = receive(control)
        if not kind:
            os._exit(0)
        if kind in (b"prepare", b"ahead"):  # "ahead": no worker waits for the answer
            learned.end_attempt()
            changed = None if is_first else imported.changes.first()
            is_first = False
            why = "stale %s has changed" % changed if changed else None
            if kind == b"ahead" and not why:
                learned.may_try = True
                why = imported.go_on()
            answer(control, why or "ready")
            continue
        is_recorder = learned.begin_attempt()
        try:
            request = Request(files)
            pid = clone_sibling(tid, robust)
        except Exception as error:
            answer(control, "failed %s" % error)
            continue
        if pid == 0:
            begin(request, control, imported, *of_launcher)
            return request, is_recorder
        request.close()


# -- the imports ---------------------------------------------------------------------------------


class Imported:
    """Imports modules ahead of the workers, and records the process state that a forked worker must
    restore."""

    def __init__(self, program, listed):
        self.program, self.listed = program, listed
        self.environment, self.streams, self.state = Environment(), Streams(), State()
        self.randomness = Randomness()
        self.learned = Learned(program, not listed)
        if self.learned.record:
            self.state.our_memory = self.learned.record.address
        self.changes = None
        self.is_end_noticed = False

    def run(self):
        """Returns None if workers can be forked, or else the reason as an answer to the
        launcher."""
        self.program.enter()
        unknown = why_unknown(name.partition(".")[0] for name in self.listed)
        if unknown:
            return "unknown " + unknown
        why = why_not_begin(self.program, self.state)
        if why:
            return "refused " + why
        return self.import_more(self.import_first)

    def go_on(self, is_called=lambda: False):
        """Imports modules ahead of time, while the workers run, until `is_called` returns True.
        Returns None, or an answer to the launcher if another zygote must replace this one."""
        if self.changes.first():
            return None  # the check before the next attempt reports it
        return self.import_more(lambda: self.import_learned(is_called))

    def import_more(self, imports):
        begun = time.clock_gettime_ns(REALTIME_COARSE)
        # Imports leave little garbage, but the collector takes a tenth of PyTorch's import time.
        thresholds = gc.get_threshold()
        gc.set_threshold(0)
        why = imports()
        if why:
            return why
        self.randomness.settle()
        self.environment.settle()
        if self.changes is None:
            self.changes = Changes(self.program)
        self.changes.include(begun)
        # Objects that were frozen before are not looked at again.
        self.is_end_noticed = end_is_noticed() or self.is_end_noticed
        if self.is_end_noticed:
            gc.collect()
        gc.freeze()  # the collector would write to shared pages and thereby copy them
        if gc.get_threshold()[0] == 0:  # no module has set its own thresholds
            gc.set_threshold(*thresholds)
        return None

    def import_first(self):
        modules = [(name, ()) for name in self.listed] or self.program.imports()
        modules = [each for each in modules if not self.program.owns(each[0])]
        why = import_all(modules, self.program, self.state, self.randomness)
        unknown = why_unknown(self.listed)
        if unknown:
            return "unknown " + unknown
        return "refused " + culprit(*why) if why else self.import_learned()

    def import_learned(self, is_called=lambda: False):
        names = self.learned.wanted()
        if not names:
            return None
        begun = []

        def each_until_called():
            for name in names:
                if is_called():
                    return
                begun.append(name)
                yield name, ()

        with Output(self.state) as output:
            why = import_all(each_until_called(), self.program, self.state, self.randomness, output)
        if why is None:
            self.learned.keep(begun)
            return None
        is_kept = self.learned.forbid(names, begun if why[0] is None else [why[0]])
        return ("stale " if is_kept else "refused ") + culprit(*why)

    def begin_again(self):
        self.streams.open_again()
        self.state.open_again()
        self.randomness.begin_again()


def main():
    control = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    parent, own = os.getppid(), memory_map()
    with open("/proc/self/cmdline", "rb") as file:
        python = os.fsdecode(file.read().partition(b"\0")[0])
    show_command_line(own, [b"muster-zygote"])
    kind, modules, *words = sys.argv[1:]
    listed = [name for name in modules.split(",") if name]
    imported = Imported(Program(kind, words[0], words[1:]), listed)
    if platform.machine() in SYSTEM_CALLS:
        why = imported.run()
    else:
        why = "refused this CPU architecture is not supported"
    if why:
        receive(control)  # exiting with an unread message would discard our answer
        answer(control, why)
        os._exit(0)
    # A scheduler may send a signal to all processes of a job. Such signals are meant for the
    # launcher and the workers.
    unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, FOR_OTHERS)
    request, is_recorder = serve(control, imported, parent, own, python)
    signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
    if imported.is_end_noticed:
        # Runs last when the worker exits. The exit then takes three times as long, because the
        # collector traverses all imported objects and thereby copies their pages.
        atexit.register(gc.unfreeze)
    if is_recorder:
        imported.learned.record.begin()
    run(request, imported.program)


main()
