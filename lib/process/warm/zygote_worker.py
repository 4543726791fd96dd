# SPDX-License-Identifier: Apache-2.0
"""Turns a forked process into a worker, as exec and the launcher would have done, and runs the
program."""

import ctypes
import importlib.machinery
import io
import os
import pkgutil
import platform
import runpy
import signal
import sys
import threading

PR_SET_PDEATHSIG = 1
PR_SET_MM = 35
PR_SET_MM_MAP = 14
SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}
MPOL_PREFERRED = 1
MPOL_PREFERRED_MANY = 5

libc.sbrk.restype = ctypes.c_void_p


# -- becoming a worker ---------------------------------------------------------------------------


class Streams:
    """sys.stdin, stdout and stderr as created by Python. Modules may keep them or wrap them, so a
    worker reopens the same objects."""

    def __init__(self):
        self.made = []
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            text = getattr(sys, name)
            if text is not None:
                raw = getattr(text.buffer, "raw", text.buffer)
                self.made.append((name, number, text, text.buffer, raw))

    def open_again(self):
        """Reinitializes the streams, because their files may have different properties now."""
        for name, number, text, binary, raw in self.made:
            if raw.closed:
                continue  # closed by a module
            raw = self.of_file(raw, number, name)
            if isinstance(binary, io.FileIO):
                binary = raw
            else:
                binary.__init__(raw)
            try:
                text.buffer
            except ValueError:
                continue  # a module has detached `binary` and wrapped it in another stream
            mode = text.mode
            text.__init__(binary, text.encoding, text.errors, newline="\n",
                          line_buffering=text.line_buffering, write_through=text.write_through)
            text.mode = mode


    @staticmethod
    def of_file(raw, number, name):
        """Returns the same object, or a new one if the cached result of seekable() is no longer
        correct."""
        fresh = io.FileIO(number, raw.mode, closefd=False)
        if fresh.seekable() != raw.seekable():
            raw = fresh
        else:
            raw.__init__(number, raw.mode, closefd=False)
        raw.name = "<%s>" % name
        return raw


class Environment:
    """Changes that Python's startup and the imports made to this process's environment."""

    def __init__(self):
        with open("/proc/self/environ", "rb") as file:
            self.before = variables_of(file.read().split(b"\0"))
        self.changed = {}

    def settle(self):
        now = dict(os.environ)
        self.changed = {name: now.get(name) for name in {**self.before, **now}
                        if now.get(name) != self.before.get(name)}

    def of_worker(self, wanted):
        """Applies the changes, except to variables that this worker sets to its own value."""
        found = dict(wanted)
        for name, value in self.changed.items():
            if wanted.get(name) == self.before.get(name):
                if value is None:
                    found.pop(name, None)
                else:
                    found[name] = value
        return found

    def become(self, wanted):
        found = self.of_worker(wanted)
        for name in set(os.environ) - set(found):
            del os.environ[name]
        for name, value in found.items():
            if os.environ.get(name) != value:
                os.environ[name] = value


def variables_of(words):
    return dict(os.fsdecode(word).split("=", 1) for word in words if b"=" in word)


def begin(request, control, imported, parent, own, python):
    """Does what exec and the launcher's spawn do for a worker that is started cold."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)  # the launcher died before the signal was set
    os.setsid()
    # Answer only once the group exists, because the launcher may then send signals to it.
    answer(control, "forked %d" % os.getpid())
    control.close()
    # No go-ahead: the launcher gave up waiting or has exited, so it does not know this process.
    if os.read(request.go_ahead, 1) != b"!":
        os._exit(1)
    for stream, number in ((request.stdin, 0), (request.stdout, 1), (request.stderr, 2)):
        os.dup2(stream, number)
    request.close()
    imported.begin_again()
    bind_to(request.cpus, request.memory)
    imported.environment.become(request.environment)
    # The launcher's command may have been a wrapper script that finds the interpreter (pyenv).
    request.argv[0] = python
    show_command_line(own, [os.fsencode(word) for word in request.argv])
    main_thread = threading.main_thread()
    if hasattr(main_thread, "_set_native_id"):
        main_thread._set_native_id()


def bind_to(cpus, memory):
    """Binds to the worker's CPUs and prefers nearby memory; imported pages are not moved. If the
    kernel refuses the CPUs, the worker exits, because it would slow down the others. If the kernel
    refuses the memory policy, the worker continues."""
    if not cpus:
        return
    if memory:
        mode = MPOL_PREFERRED_MANY if len(memory) > 1 else MPOL_PREFERRED
        bits = 8 * ctypes.sizeof(ctypes.c_ulong)
        words = (ctypes.c_ulong * (max(memory) // bits + 1))()
        for node in memory:
            words[node // bits] |= 1 << node % bits
        size = ctypes.c_ulong(len(words) * bits + 1)
        libc.syscall(
            ctypes.c_long(SET_MEMPOLICY[platform.machine()]), ctypes.c_long(mode), words, size
        )
    try:
        os.sched_setaffinity(0, cpus)
    except OSError as error:
        sys.exit("muster: cannot bind a worker to its CPUs: %s (were they removed after the "
                 "launch? Try --numa-binding=none)" % error.strerror)


class MemoryMap(ctypes.Structure):
    """The struct prctl_mm_map from linux/prctl.h."""

    _fields_ = [(name, ctypes.c_uint64) for name in
                ("start_code end_code start_data end_data start_brk brk start_stack "
                 "arg_start arg_end env_start env_end auxv").split()]
    _fields_ += [("auxv_size", ctypes.c_uint32), ("exe_fd", ctypes.c_uint32)]


def memory_map():
    with open("/proc/self/stat", "rb") as file:
        text = file.read()
    field = [int(word) for word in text[text.rindex(b")") + 4 :].split()]  # [0] is the parent pid
    of_code, of_data, of_argv = field[22:25], field[41:44], field[44:48]
    brk = libc.sbrk(ctypes.c_long(0))
    return MemoryMap(*of_code[:2], *of_data, brk, of_code[2], *of_argv, 0, 0, 0xFFFFFFFF)


def show_command_line(own, argv):
    """Makes ps, pgrep -f and /proc/PID/cmdline show `argv`. `own`: our memory map at the start."""
    room = own.arg_end - own.arg_start
    if own.arg_start == 0 or room <= 0:
        return
    shown = (b"\0".join(argv) + b"\0")[:room]
    ctypes.memmove(own.arg_start, shown.ljust(room, b"\0"), room)
    changed = MemoryMap.from_buffer_copy(own)
    changed.arg_end = changed.arg_start + len(shown)
    changed.brk = libc.sbrk(ctypes.c_long(0))
    # If the kernel does not allow this (no CONFIG_CHECKPOINT_RESTORE), trailing zeros remain
    # visible.
    libc.prctl(PR_SET_MM, PR_SET_MM_MAP, ctypes.byref(changed), ctypes.sizeof(changed), 0)


# -- running the program -------------------------------------------------------------------------


def hide_our_frames():
    """Removes our frames from the traceback of the error that terminates the program."""
    own = globals()

    def strip(kind, error, traceback):
        sys.excepthook = shown
        while traceback and traceback.tb_frame.f_globals is own:
            traceback = traceback.tb_next
        shown(kind, error.with_traceback(traceback), traceback)

    shown = sys.excepthook  # the program may have replaced it
    sys.excepthook = strip


def run_module(argv):
    runpy._run_module_as_main(argv[0])


def run_script(argv):
    path = argv[0]
    names = sys.modules["__main__"].__dict__
    if pkgutil.get_importer(path) is not None:  # a directory or an archive with a __main__
        runpy._run_module_as_main("__main__", False)
        return
    absolute = path if os.path.isabs(path) else os.path.join(os.getcwd(), path)
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        reason = (sys.executable, absolute, error.errno, error.strerror)
        sys.stderr.write("%s: can't open file %r: [Errno %d] %s\n" % reason)
        sys.exit(2)
    names["__file__"] = absolute
    names["__cached__"] = None
    names["__loader__"] = importlib.machinery.SourceFileLoader("__main__", absolute)
    exec(compile(source, absolute, "exec", dont_inherit=True), names)


def run(request, program):
    rest = request.argv[2:]  # the words after python and -u
    program.set_argv(["-m", *rest[2:]] if rest[0] == "-m" else rest)
    if hasattr(sys, "orig_argv"):
        sys.orig_argv = list(request.argv)
    try:
        if rest[0] == "-m":
            run_module(rest[1:])
        else:
            run_script(rest)
    except BaseException:
        hide_our_frames()
        raise
