# SPDX-License-Identifier: Apache-2.0
"""Checks that the imported modules match the files on disk, and that an import would still find
them there."""

import importlib.machinery
import os
import sys

SUFFIXES = tuple(importlib.machinery.all_suffixes())


def files_of(names):
    """The files that a module was loaded from: its own file, or the archive that contains it."""
    spec = names.get("__spec__")
    loader = getattr(spec, "loader", None)
    for path in (names.get("__file__"), getattr(spec, "origin", None),
                 getattr(loader, "archive", None)):
        if isinstance(path, str) and os.path.isabs(path):
            yield path


def folders_of(names):
    """The directories of a package: a new file in them may shadow an imported module."""
    try:
        return [each for each in names.get("__path__", ()) if isinstance(each, str)]
    except Exception:  # a package's __path__ may be anything
        return []


def stamp(path):
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def could_be_imported(folder, names):
    """The entries of a directory that could provide one of these modules, or could extend
    sys.path (.pth files)."""
    try:
        entries = os.listdir(folder)
    except OSError:
        return None
    return {entry for entry in entries if entry.endswith(".pth") or
            (entry.partition(".")[0] in names and (entry.endswith(SUFFIXES) or "." not in entry))}


class Changes:
    """Detects changes to the modules in sys.modules."""

    def __init__(self, program):
        self.program, self.entry = program, program.entry
        self.stamps, self.folders, self.entries = {}, {}, {}
        self.late = None

    def include(self, begun):
        """Adds the modules imported since the last call. `begun`: ns since 1970, before the first
        of these imports."""
        known = set(self.stamps)
        self.tops = {name for name in sys.modules if "." not in name}
        for name, module in list(sys.modules.items()):
            if name != "__main__":
                names = getattr(module, "__dict__", {})
                self.add(name, files_of(names), self.stamps)
                self.add(name, folders_of(names), self.folders)
        for entry in dict.fromkeys(sys.path):
            if isinstance(entry, str):
                self.entries[entry] = (stamp(entry), could_be_imported(entry, self.tops))
        # A file changed after `begun` may have been read before the change, so it is imported
        # again.
        self.late = self.late or next(
            (name for path, (name, status) in self.stamps.items()
             if path not in known and status[3] >= begun), None)

    @staticmethod
    def add(name, paths, found):
        for path in paths:
            status = stamp(path) if path not in found else None
            if status is not None:
                found[path] = (name, status)

    def first(self):
        """The first module that has changed, or None. Does not write to module objects, because
        that would copy their pages."""
        if self.late:
            return self.late
        if self.program.path_entry() != self.entry:
            return self.program.name
        for found in (self.stamps, self.folders):
            for path, (name, before) in found.items():
                if stamp(path) != before:
                    return name
        for entry, (before, names) in self.entries.items():
            now = stamp(entry)
            if now != before and could_be_imported(entry, self.tops) != names:
                return entry
            self.entries[entry] = (now, names)
        return None
