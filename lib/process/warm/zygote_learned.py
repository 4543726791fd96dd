# SPDX-License-Identifier: Apache-2.0
"""Learns which modules the program imports outside its top level, so that the zygote can import
them ahead of time. PyTorch, for example, imports 900 modules when DistributedDataParallel is built.
One worker records the names; a file keeps them for later jobs. A wrong name only costs time."""

import _thread
import ctypes
import importlib.util
import os
import stat
import sys

NAMES_MAX = 4096
# Each unsafe name costs a new zygote. Beyond this limit, nothing is imported ahead of time.
UNSAFE_MAX = 16
RECORD_BYTES = 256 << 10  # also the size limit of a file; PyTorch's names need 25 KiB
FILES_MAX = 256  # number of files in the folder; the oldest are removed
FIRST_PAUSE, LAST_PAUSE = 1, 64  # seconds between checks of the record
FORMAT = "muster-warm 3"
PROT_READ_WRITE = 3
MAP_SHARED_ANONYMOUS = 0x21

libc.mmap.restype = ctypes.c_void_p


class Record:
    """The recorded names. They are in memory that the zygote shares with its workers, so that they
    are not lost if a worker is killed. The memory has no descriptor, because a program may close
    any descriptor."""

    __module__ = "muster_zygote"  # shown to code that inspects sys.meta_path

    def __init__(self):
        self.address = libc.mmap(None, ctypes.c_size_t(RECORD_BYTES), PROT_READ_WRITE,
                                 MAP_SHARED_ANONYMOUS, -1, ctypes.c_long(0))
        self.writer = 0  # a process forked by the worker records nothing
        self.place = 0
        self.lock = _thread.allocate_lock()

    def begin(self):
        """Call in the recording worker, immediately before the program starts."""
        self.environ, self.before = os.environ, dict(os.environ._data)
        self.writer = os.getpid()
        sys.meta_path.insert(0, self)

    def find_spec(self, name, path=None, target=None):
        """A finder that never finds anything. Many programs only check whether a module exists
        (importlib.util.find_spec); such names are not recorded. Once the program has changed its
        environment, its imports may depend on that and are no longer recorded."""
        if sys._getframe(2).f_code.co_name != "_find_and_load_unlocked":
            return None
        if self.writer == os.getpid() and self.lock.acquire(False):
            if self.environ._data == self.before:
                self.add(name.encode("utf-8", "replace") + b"\n")
            else:
                self.writer = 0
            self.lock.release()
        return None

    def add(self, line):
        if self.place + len(line) < RECORD_BYTES:
            ctypes.memmove(self.address + self.place, line, len(line))
            self.place += len(line)

    def names(self):
        text = ctypes.string_at(self.address, RECORD_BYTES).partition(b"\0")[0]
        return text.decode("utf-8", "replace").split("\n")[:-1]

    def clear(self):
        ctypes.memset(self.address, 0, RECORD_BYTES)


class NamesFile:
    """The names that were learned for one program and one Python, those that no zygote has imported
    yet ("?name", and "??name" after another job), and those that were found to be unsafe ("!name").
    Reads the file only if the user owns it, and replaces it atomically."""

    def __init__(self, program):
        source = program.source or program.name
        self.key = repr((program.kind, source, sys.executable, sys.version, sys.prefix))
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(
            os.environ.get("HOME") or "/nonexistent", ".cache")
        self.folder = os.path.join(cache, "muster", "warm")
        self.path = os.path.join(self.folder,
                                 importlib.util.source_hash(os.fsencode(self.key)).hex())

    def is_usable(self):
        """True if the names can be saved. Without a file, a new zygote could not know which modules
        the previous one found unsafe."""
        if not os.path.isabs(self.folder):
            return False
        try:
            os.makedirs(self.folder, 0o700, exist_ok=True)
        except OSError:
            return False
        return os.access(self.folder, os.W_OK | os.X_OK)

    def read(self):
        try:
            file = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return []
        try:
            status = os.fstat(file)
            if (not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or
                    status.st_mode & 0o022 or status.st_size > RECORD_BYTES):
                return []
            lines = os.read(file, RECORD_BYTES).decode("utf-8", "replace").split("\n")
        except OSError:
            return []
        finally:
            os.close(file)
        return lines[2:-1] if lines[:2] == [FORMAT, self.key] else []

    def write(self, lines):
        """Returns False if the file could not be written."""
        text = "\n".join([FORMAT, self.key, *lines, ""]).encode("utf-8", "replace")
        if len(text) > RECORD_BYTES:
            return False
        new = "%s.%s.%d" % (self.path, os.uname().nodename, os.getpid())  # homes may be shared
        try:
            self.remove_oldest()
            file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW |
                           os.O_CLOEXEC, 0o600)
            try:
                complete = os.write(file, text) == len(text)
            finally:
                os.close(file)
            if complete:
                os.rename(new, self.path)
            else:
                os.unlink(new)
            return complete
        except OSError:
            return False

    def remove_oldest(self):
        """Other jobs may rename or remove their files at the same time."""
        with os.scandir(self.folder) as found:
            files = sorted((time, each.path) for each in found
                           if (time := unless_gone(lambda: each.stat().st_mtime)) is not None)
        for _, path in files[: max(0, len(files) - FILES_MAX + 1)]:
            unless_gone(lambda: os.unlink(path))


def unless_gone(access):
    """The result of `access`, or None if its file does not exist."""
    try:
        return access()
    except FileNotFoundError:
        return None


def is_name(text):
    return all(part.isidentifier() for part in text.split("."))


class Learned:
    """The names that the zygote imports ahead of time. `enabled` is False if the user listed
    modules. Names that no zygote has imported yet may turn out to be unsafe, which costs a new
    zygote. They are therefore imported only while no worker waits for this one, or if two jobs were
    too short for that. In the latter case, the new zygote does not try again."""

    def __init__(self, program, enabled):
        self.program = program
        self.file = NamesFile(program)
        self.record = Record() if enabled and self.file.is_usable() else None
        self.lines = self.file.read() if self.record else []
        self.unsafe = {line[1:] for line in self.lines if line.startswith("!")}
        self.known = [line for line in self.lines if is_name(line)][:NAMES_MAX]
        self.untried = [name for line in self.lines
                        if line[:1] == "?" and is_name(name := line.lstrip("?"))]
        self.overdue = {line[2:] for line in self.lines if line[:2] == "??"}
        self.old = set(self.untried)
        self.may_try = False
        self.failed = set()
        self.has_recorder = False
        self.seen, self.pause = 0, None

    def wanted(self):
        """The known and recorded names, in order, that this process has not imported."""
        recorded = [name for name in self.record.names() if is_name(name)] if self.record else []
        recorded = [each for each in self.untried
                    if self.may_try or each in self.overdue] + recorded
        if len(self.unsafe) > UNSAFE_MAX:
            return []
        names = [name for name in dict.fromkeys(self.known + recorded) if name not in sys.modules
                 and name not in self.failed and not self.is_unsafe(name)]
        tops = {name.partition(".")[0] for name in names}
        own = {top for top in tops if self.program.owns(top)}
        return [name for name in names if name.partition(".")[0] not in own]

    def is_unsafe(self, name):
        """True for a module that was found unsafe, and for the submodules of such a package."""
        while name and name not in self.unsafe:
            name = name.rpartition(".")[0]
        return bool(name)

    def keep(self, names):
        """Remembers names that were imported. Returns True if the file contains them."""
        added = [name for name in names if name in sys.modules]
        self.failed.update(set(names) - set(added))
        return self.write(self.known + added, self.untried)

    def forbid(self, names, unsafe):
        """Records that workers cannot be forked once the modules in `unsafe`, a subset of `names`,
        have been imported."""
        self.unsafe.update(unsafe)
        self.old.clear()
        return self.write(self.known, self.untried + names)

    def write(self, known, untried):
        is_kept = lambda each: each not in self.failed and not self.is_unsafe(each)
        self.known = [*filter(is_kept, dict.fromkeys(known))][:NAMES_MAX]
        self.untried = [each for each in filter(is_kept, dict.fromkeys(untried))
                        if each not in self.known][: NAMES_MAX - len(self.known)]
        lines = (self.known +
                 [("??" if each in self.old else "?") + each for each in self.untried] +
                 ["!" + each for each in sorted(self.unsafe)])
        if lines != self.lines:
            self.lines = lines
            return self.file.write(lines)
        return True

    # -- while the workers run

    def end_attempt(self):
        """Call when the workers have exited: keeps the names recorded since the last check."""
        if self.record and self.has_recorder:
            self.write(self.known, self.untried + self.wanted())
            self.record.clear()
        self.has_recorder, self.pause = False, None

    def begin_attempt(self):
        """Returns True if the worker that is being forked should record."""
        if self.record is None or self.has_recorder:
            return False
        self.has_recorder, self.seen, self.pause = True, 0, FIRST_PAUSE
        return True

    def look(self):
        """Called after each pause. Returns True if there are names to import and the program has
        stopped importing, or has not begun within two pauses."""
        self.may_try = True
        count = len(self.record.names())
        is_quiet, self.seen = count == self.seen, count
        has_begun = count > 0 or self.pause > FIRST_PAUSE
        self.pause = min(self.pause * 2, LAST_PAUSE) if is_quiet else FIRST_PAUSE
        return is_quiet and has_begun and bool(self.wanted())
