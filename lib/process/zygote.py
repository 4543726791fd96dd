# SPDX-License-Identifier: Apache-2.0
"""The zygote: imports what the workers need, once, then forks each worker from itself.

The launcher starts it as `python -u -c SOURCE KIND PROGRAM [MODULE...]` with a SEQPACKET socket as
its standard input (zygote.cpp has the other end). It is part of the launcher's binary, behind
zygote_imports.py as one text, so the user's Python needs no package of ours. A forked worker is a
child of the launcher, not of this process, and differs from one that was started cold in nothing
that a program should notice: ZYGOTE.md says what is the same and what is not.

It only runs on Linux, with CPython 3.9 or later.
"""

import array
import atexit
import ctypes
import gc
import importlib.machinery
import io
import os
import pkgutil
import platform
import runpy
import signal
import socket
import sys
import threading
import types

MESSAGE_BYTES = 64
FILES = 5  # of one request: the worker as text, its three streams, the go-ahead

FOR_OTHERS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1,
              signal.SIGUSR2}
PR_SET_PDEATHSIG = 1
PR_SET_MM = 35
PR_SET_MM_MAP = 14
CLONE_PARENT = 0x00008000
CLONE_CHILD_CLEARTID = 0x00200000
CLONE_CHILD_SETTID = 0x01000000
# Of clone, set_robust_list and get_robust_list; whether clone takes the child's tid as the last.
SYSTEM_CALLS = {"x86_64": (56, 273, 274, False), "aarch64": (220, 99, 100, True)}
SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}
MPOL_PREFERRED = 1
MPOL_PREFERRED_MANY = 5

libc = ctypes.PyDLL(None)  # holds the GIL: no thread of Python may run between clone and its end
libc.syscall.restype = ctypes.c_long
libc.pthread_self.restype = ctypes.c_void_p
libc.sbrk.restype = ctypes.c_void_p


# -- forking -------------------------------------------------------------------------------------


def tid_address():
    """Where glibc and musl remember the main thread's id; 0 if it is not found.

    fork() would have the kernel write the child's there. They use it for locks that know their
    owner.
    """
    own = os.getpid()
    start = libc.pthread_self()
    words = (ctypes.c_int * 512).from_address(start)
    return next((start + 4 * i for i, word in enumerate(words) if word == own), 0)


def robust_list():
    """The list of locks that the kernel releases when a thread dies: address and length."""
    _, _, get_robust_list, _ = SYSTEM_CALLS[platform.machine()]
    head, length = ctypes.c_void_p(), ctypes.c_size_t()
    result = libc.syscall(
        ctypes.c_long(get_robust_list), ctypes.c_long(0), ctypes.byref(head), ctypes.byref(length)
    )
    return (head, length) if result == 0 else None


def clone_sibling(tid, robust):
    """fork(), but the child's parent is ours: 0 in the child. Raises OSError."""
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
        raise OSError("the kernel refused to fork it")
    return pid


# -- the launcher's requests ---------------------------------------------------------------------


class Request:
    """One worker: its command line, its environment, its streams."""

    def __init__(self, files):
        text, self.stdin, self.stdout, self.stderr, self.go_ahead = files
        with open(text, "rb") as file:
            fields = file.read().split(b"\0")
        count = int(fields[0])
        self.cpus, self.memory = numbers_of(fields[1]), numbers_of(fields[2])
        self.argv = [os.fsdecode(field) for field in fields[3 : count + 3]]
        self.environment = dict(
            os.fsdecode(field).split("=", 1) for field in fields[count + 3 : -1] if b"=" in field
        )

    def close(self):
        for file in (self.stdin, self.stdout, self.stderr, self.go_ahead):
            os.close(file)


def numbers_of(text):
    """The numbers of the kernel's list format: "0-3,8"."""
    ends = [[int(end) for end in part.split(b"-")] for part in text.split(b",") if part]
    return {number for part in ends for number in range(part[0], part[-1] + 1)}


def receive(control):
    """The kind of a message and its descriptors; an empty kind when the launcher has gone."""
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


def serve(control, before, *of_launcher):
    """Answers until the launcher has gone. Returns in a forked worker only, with its request."""
    tid, robust = tid_address(), robust_list()
    while True:
        kind, files = receive(control)
        if not kind:
            os._exit(0)
        if kind == b"prepare":
            changed = first_change(before)
            answer(control, "stale " + changed if changed else "ready")
            continue
        try:
            request = Request(files)
            pid = clone_sibling(tid, robust)
        except Exception as error:
            answer(control, "failed %s" % error)
            continue
        if pid == 0:
            begin(request, control, *of_launcher)
            return request
        request.close()


# -- becoming a worker ---------------------------------------------------------------------------


def begin(request, control, parent, own, python):
    """What exec and the launcher's own spawn do for a worker that is started cold."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)  # the launcher died before the signal was set
    os.setsid()
    # Not before there is a group: from now on the launcher sends it signals.
    answer(control, "forked %d" % os.getpid())
    control.close()
    # Without the go-ahead the launcher does not know of us: it gave up waiting, or is gone.
    if os.read(request.go_ahead, 1) != b"!":
        os._exit(1)
    for stream, number in ((request.stdin, 0), (request.stdout, 1), (request.stderr, 2)):
        os.dup2(stream, number)
    request.close()
    reopen_streams()
    bind_to(request.cpus, request.memory)
    for name in set(os.environ) - set(request.environment):
        del os.environ[name]
    for name, value in request.environment.items():
        if os.environ.get(name) != value:
            os.environ[name] = value
    # What the launcher called may have been a script that looks for the interpreter (pyenv).
    request.argv[0] = python
    show_command_line(own, [os.fsencode(word) for word in request.argv])
    make_random_again()
    main_thread = threading.main_thread()
    if hasattr(main_thread, "_set_native_id"):
        main_thread._set_native_id()


def bind_to(cpus, memory):
    """The worker's own CPUs and the memory near them; what was imported stays where it is. Without
    its CPUs it would disturb the others, so a refusal ends it; one of the policy does not."""
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
        sys.exit("muster: a worker cannot be bound to its CPUs: %s; were they taken away since "
                 "the launch? try --numa-binding=none" % error.strerror)


def reopen_streams():
    """Text streams as Python makes them under -u: what they know of their files is found anew."""
    for name, mode, number in (("stdin", "r", 0), ("stdout", "w", 1), ("stderr", "w", 2)):
        old = getattr(sys, "__%s__" % name)
        raw = binary = io.FileIO(number, mode, closefd=False)
        raw.name = "<%s>" % name
        if mode == "r":
            binary = io.BufferedReader(raw)
        text = io.TextIOWrapper(
            binary, old.encoding, old.errors, newline="\n", write_through=True
        )
        text.mode = mode
        setattr(sys, name, text)
        setattr(sys, "__%s__" % name, text)


class MemoryMap(ctypes.Structure):
    """prctl_mm_map of linux/prctl.h."""

    _fields_ = [(name, ctypes.c_uint64) for name in
                ("start_code end_code start_data end_data start_brk brk start_stack "
                 "arg_start arg_end env_start env_end auxv").split()]
    _fields_ += [("auxv_size", ctypes.c_uint32), ("exe_fd", ctypes.c_uint32)]


def memory_map():
    with open("/proc/self/stat", "rb") as file:
        text = file.read()
    field = [int(word) for word in text[text.rindex(b")") + 4 :].split()]  # [0] is the parent
    of_code, of_data, of_argv = field[22:25], field[41:44], field[44:48]
    brk = libc.sbrk(ctypes.c_long(0))
    return MemoryMap(*of_code[:2], *of_data, brk, of_code[2], *of_argv, 0, 0, 0xFFFFFFFF)


def show_command_line(own, argv):
    """Makes ps, pgrep -f and /proc/PID/cmdline show `argv`. `own`: our map when we began."""
    room = own.arg_end - own.arg_start
    if own.arg_start == 0 or room <= 0:
        return
    shown = (b"\0".join(argv) + b"\0")[:room]
    ctypes.memmove(own.arg_start, shown.ljust(room, b"\0"), room)
    changed = MemoryMap.from_buffer_copy(own)
    changed.arg_end = changed.arg_start + len(shown)
    changed.brk = libc.sbrk(ctypes.c_long(0))
    # Where the kernel does not allow it (no CONFIG_CHECKPOINT_RESTORE) zeros follow.
    libc.prctl(PR_SET_MM, PR_SET_MM_MAP, ctypes.byref(changed), ctypes.sizeof(changed), 0)


def make_random_again():
    """What was drawn once at import and is each process's own when it is started cold."""
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()
    if "multiprocessing.process" in sys.modules:
        sys.modules["multiprocessing.process"].current_process().authkey = os.urandom(32)


# -- running the program -------------------------------------------------------------------------


def hide_our_frames():
    """The traceback of the error that ends the program begins with the program's own frames."""
    own = globals()

    def strip(kind, error, traceback):
        sys.excepthook = shown
        while traceback and traceback.tb_frame.f_globals is own:
            traceback = traceback.tb_next
        shown(kind, error.with_traceback(traceback), traceback)

    shown = sys.excepthook  # it may be the program's
    sys.excepthook = strip


def new_main():
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = sys.modules["builtins"]
    if sys.version_info < (3, 14):
        main.__dict__["__annotations__"] = {}
    sys.modules["__main__"] = main
    return main.__dict__


def set_path(first):
    if not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, first)


def run_module(argv):
    set_path(os.getcwd())
    sys.argv = ["-m", *argv[1:]]
    new_main()
    runpy._run_module_as_main(argv[0])


def run_script(argv):
    path = argv[0]
    sys.argv = argv
    names = new_main()
    if pkgutil.get_importer(path) is not None:  # a folder or an archive with a __main__
        sys.path.insert(0, path)
        runpy._run_module_as_main("__main__", False)
        return
    set_path(os.path.dirname(os.path.realpath(path)))
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


def run(request):
    rest = request.argv[2:]  # behind python and -u
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


def main():
    control = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    if sys.path and sys.path[0] == "":
        del sys.path[0]  # of -c; a script has its own folder there
    parent, own = os.getppid(), memory_map()
    with open("/proc/self/cmdline", "rb") as file:
        python = os.fsdecode(file.read().partition(b"\0")[0])
    show_command_line(own, [b"muster-zygote"])
    kind, program, *names = sys.argv[1:]
    why = "" if platform.machine() in SYSTEM_CALLS else "this processor is not known"
    # Imports leave little to collect, but a tenth of PyTorch's time goes into looking for it.
    thresholds = gc.get_threshold()
    gc.set_threshold(0)
    why = why or import_all([(name, ()) for name in names] or modules_of(kind, program))
    if why:
        receive(control)  # an end with a message unread would cost the launcher ours
        answer(control, "refused " + why)
        os._exit(0)
    before = stamps()
    is_end_noticed = end_is_noticed()
    if is_end_noticed:
        gc.collect()
    gc.freeze()  # the collector would write into, and so copy, pages that all workers share
    if gc.get_threshold()[0] == 0:  # no module has set its own
        gc.set_threshold(*thresholds)
    # A scheduler may signal all processes of a job: that is for the workers, and for the launcher.
    unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, FOR_OTHERS)
    request = serve(control, before, parent, own, python)
    signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
    if is_end_noticed:
        # The last of all at the worker's end, which then takes three times as long: the collector
        # goes through all that was imported, and copies the pages that it lies in.
        atexit.register(gc.unfreeze)
    run(request)


main()
