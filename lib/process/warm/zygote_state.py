# SPDX-License-Identifier: Apache-2.0
"""Finds side effects of imports on this process: state that workers would share, and state that
they need but would not inherit. The state is compared before and after each import."""

import ctypes
import fcntl
import os
import re
import signal
import stat
import sys
import time

# Workers would share an open accelerator device, which drivers forbid.
ACCELERATORS = ("/dev/nvidia", "/dev/kfd", "/dev/dri/render")
MEMORY_DEVICES = 1  # the major number of /dev/null, /dev/zero, /dev/urandom
PR_GET_PDEATHSIG = 2
PR_GET_CHILD_SUBREAPER = 37
STANDARD = ("standard input", "standard output", "standard error")
THREAD_END = 0.1  # seconds within which the kernel removes an exited thread from /proc
TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)

libc = ctypes.PyDLL(None)  # holds the GIL, so no Python thread runs until clone returns
libc.PyInterpreterState_Head.restype = libc.PyInterpreterState_Next.restype = ctypes.c_void_p
libc.PyInterpreterState_Next.argtypes = [ctypes.c_void_p]


def has_threads():
    return len(os.listdir("/proc/self/task")) > 1


def has_lasting_threads():
    """True if a thread does not exit when the process forks. OpenBLAS, for example, starts threads
    during import, stops them before a fork (pthread_atfork), and restarts them when a worker needs
    them. Our own fork runs no such handler, so this function calls libc's fork to stop the
    threads."""
    if not has_threads():
        return False
    ctypes.pythonapi.PyOS_BeforeFork()
    pid = libc.fork()
    if pid == 0:
        libc._exit(0)
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    if pid < 0:
        return True
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        pass  # a module ignores SIGCHLD
    end = time.monotonic() + THREAD_END
    while has_threads() and time.monotonic() < end:
        os.sched_yield()  # the kernel does not report that it has removed a thread
    return has_threads()


def has_children():
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def descriptors():
    """Returns {descriptor: its target}."""
    found = {}
    for number in os.listdir("/proc/self/fd"):
        try:
            found[int(number)] = os.readlink("/proc/self/fd/" + number)
        except OSError:
            pass  # the descriptor of /proc/self/fd itself
    return found


def shared_memory(ours):
    """A writable shared mapping through which workers could affect each other, or None. Ignores our
    own mapping, which starts at the address `ours`."""
    with open("/proc/self/maps", "rb") as file:
        found = re.search(rb"^(?!0*%x-)\S+ .w.s .*$" % (ours or 0), file.read(), re.MULTILINE)
    return os.fsdecode((found[0].split(None, 5) + [b""])[5]).strip() or "memory" if found else None


def process_attribute(option):
    word = ctypes.c_int()
    libc.prctl(option, ctypes.byref(word), 0, 0, 0)
    return word.value


def has_subinterpreters():
    return bool(libc.PyInterpreterState_Next(libc.PyInterpreterState_Head()))


def is_priority_reset():
    return bool(os.sched_getscheduler(0) & os.SCHED_RESET_ON_FORK)


def locked_memory():
    with open("/proc/self/status", "rb") as file:
        found = re.search(rb"VmLck:\s+(\d+)", file.read())
    return bool(found) and int(found[1]) != 0


def has_timers():
    if any(signal.getitimer(which)[0] for which in TIMERS):
        return True
    try:
        with open("/proc/self/timers", "rb") as file:
            return bool(file.read())
    except OSError:
        return False


def of_folder():
    try:
        status = os.stat(".")
    except OSError:
        return None
    return status.st_dev, status.st_ino


def may_be_opened_again(number):
    """True for a read-only file, in which each worker can have its own offset."""
    mode = os.fstat(number).st_mode
    reads = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
    return reads and (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def is_locked(number):
    """True if this process holds a lock or a lease on the file."""
    with open("/proc/self/fdinfo/%d" % number, "rb") as file:
        return b"\nlock:" in file.read()


def is_nonblocking(number):
    try:
        return not os.get_blocking(number)
    except OSError:
        return False  # it is closed


def is_harmless(number):
    status = os.fstat(number)
    return stat.S_ISCHR(status.st_mode) and os.major(status.st_rdev) == MEMORY_DEVICES


class State:
    def __init__(self):
        self.descriptors = descriptors()
        self.nonblocking = [is_nonblocking(number) for number in range(len(STANDARD))]
        self.kept = self.of_process()
        self.files = []  # descriptors that each worker reopens
        self.our_memory = None  # the address of a shared mapping

    def of_process(self):
        return (
            (of_folder(), "has changed the current directory"),
            (os.sched_getaffinity(0), "has bound the process to CPUs"),
            (process_attribute(PR_GET_CHILD_SUBREAPER),
             "has become a subreaper, which a forked worker would not be"),
            (process_attribute(PR_GET_PDEATHSIG),
             "has changed the parent-death signal, which a forked worker would not have"),
            (has_subinterpreters(),
             "has created a subinterpreter, which a forked worker would not have"),
            (is_priority_reset(),
             "has set a scheduling policy that a forked worker would not have"),
            ((sys.gettrace(), sys.getprofile()),
             "has set a trace function, which would also trace the start of a forked worker"),
            (has_timers(), "has started a timer, which a forked worker would not have"),
            (locked_memory(), "has locked memory, which a forked worker would not have"),
        )

    def why_not_begin(self):
        """Checks for side effects of Python's startup (sitecustomize, .pth files)."""
        if has_lasting_threads():
            return "has started a thread, which a forked worker would not have"
        if has_children():
            return "has started a process, which would not be a worker's child"
        for target in self.descriptors.values():
            if target.startswith(ACCELERATORS):
                return "has opened %s, which workers must not share" % target
        return "has started a timer" if has_timers() else None

    def why_not_fork(self):
        if has_lasting_threads():
            return "has started a thread, which a forked worker would not have"
        if has_children():
            return "has started a process, which would not be a worker's child"
        for (before, _), (now, why) in zip(self.kept, self.of_process()):
            if before != now:
                return why
        return self.why_not_share(descriptors())

    def why_not_share(self, now):
        for number, name in enumerate(STANDARD):
            if now.get(number) != self.descriptors.get(number):
                return "has replaced " + name
            if is_nonblocking(number) and not self.nonblocking[number]:
                return "has made %s non-blocking" % name
        self.files = []
        for number, target in sorted(now.items()):
            if self.descriptors.get(number) == target:
                continue
            is_device = target.startswith(ACCELERATORS)
            if not is_device and is_harmless(number):
                continue
            if is_device or not may_be_opened_again(number):
                return "has opened %s, which workers must not share" % target
            if is_locked(number):
                return "has locked %s, which workers must not share" % target
            self.files.append(number)
        return None

    def why_not_share_memory(self):
        """Checked once, after all imports, because the list of mappings may be long."""
        found = shared_memory(self.our_memory)
        if found:
            return "has mapped shared %s, which workers must not share" % found
        return own_folder_of_python()

    def open_again(self):
        """Reopens each file in a worker, which thereby gets a separate offset."""
        for number in self.files:
            flags = fcntl.fcntl(number, fcntl.F_GETFL)
            if flags & os.O_PATH:
                continue  # has no offset
            inherited = os.get_inheritable(number)
            place = os.lseek(number, 0, os.SEEK_CUR)
            new = os.open("/proc/self/fd/%d" % number, flags | os.O_CLOEXEC)
            os.lseek(new, place, os.SEEK_SET)
            os.dup2(new, number, inherited)
            os.close(new)


def own_folder_of_python():
    """The reason not to fork if a TemporaryDirectory exists, which the first worker to exit would
    remove; None otherwise."""
    finalize = getattr(sys.modules.get("weakref"), "finalize", None)
    for each in list(getattr(finalize, "_registry", {}).values()):
        if getattr(each.func, "__qualname__", "") == "TemporaryDirectory._cleanup":
            return "has created a temporary directory, which the first worker to exit would remove"
    return None
