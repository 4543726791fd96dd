# SPDX-License-Identifier: Apache-2.0
"""What the zygote imports for its workers, and whether they can be forked from it afterwards. One
text with zygote.py, which comes behind it."""

import ast
import gc
import importlib.machinery
import os
import sys

# A device of an accelerator that is open here would be shared by all workers, which drivers forbid.
ACCELERATORS = ("/dev/nvidia", "/dev/kfd", "/dev/dri/render")


def top_level_imports(source):
    """The absolute imports at the top level of a program, in order: (module, names taken from it).
    None of one that cannot be parsed: its worker says why."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return []
    names = []
    for statement in tree.body:
        if isinstance(statement, ast.Import):
            names += [(alias.name, ()) for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom) and statement.level == 0:
            names.append((statement.module, tuple(alias.name for alias in statement.names)))
    return list(dict.fromkeys(names))


def program_source(kind, program):
    """Where the program's text lies, and the folder that its own modules come from."""
    if kind == "script":
        folder = os.path.dirname(os.path.realpath(program))
        return (program if os.path.isfile(program) else None), folder
    folder = os.getcwd()
    try:
        spec = importlib.machinery.PathFinder.find_spec(program.partition(".")[0], [folder])
        if spec is None and "." not in program:
            spec = importlib.machinery.PathFinder.find_spec(program)
    except (ImportError, ValueError):
        spec = None
    return (spec.origin if spec and spec.has_location else None), folder


def is_users_own(name, folder):
    """Whether a module lies beside the program: it may change between attempts."""
    top = name.partition(".")[0]
    return importlib.machinery.PathFinder.find_spec(top, [folder]) is not None


def modules_of(kind, program):
    path, folder = program_source(kind, program)
    if path is None:
        return []
    try:
        with open(path, "rb") as file:
            names = top_level_imports(file.read())
    except OSError:
        return []
    return [each for each in names if not is_users_own(each[0], folder)]


def import_all(names):
    """Imports them; why no worker may be forked afterwards, or None.

    A module that fails is left to the worker, which fails as it would have without us.
    """
    before = why_not_fork()
    if before:
        return "the start of Python " + before
    for name, taken in names:
        try:
            __import__(name, fromlist=taken)  # a name may be a module: from torch.utils import data
        except BaseException:  # SystemExit too
            pass
        why = why_not_fork()
        if why:
            return "importing %s %s" % (name, why)
    return None


def why_not_fork():
    if len(os.listdir("/proc/self/task")) > 1:
        return "has started a thread, which a forked worker would not have"
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink("/proc/self/fd/" + number)
        except OSError:
            continue
        if target.startswith(ACCELERATORS):
            return "has opened %s, which workers must not share" % target
    return None


def stamps():
    """What tells that a top-level module was installed anew: its file, inode and time."""
    found = {}
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if "." in name or name == "__main__" or not isinstance(path, str):
            continue
        try:
            status = os.stat(path)
        except OSError:
            continue
        found[name] = (path, status.st_ino, status.st_mtime_ns)
    return found


def first_change(before):
    """The module whose file is not what it was. Looks at no module: that would copy its page."""
    for name, (path, *stamp) in before.items():
        try:
            status = os.stat(path)
        except OSError:
            return name
        if [status.st_ino, status.st_mtime_ns] != stamp:
            return name
    return None


def end_is_noticed():
    """Whether an object that was made by the imports notices if it is never collected: by a
    finalizer, or because nanobind counts its objects and reports a page of those that are left."""
    kinds = {type(each) for each in gc.get_objects()}
    of_python = ("builtins", "_io", "_socket")  # they only close what the process closes at its end
    return any(each.__module__ == "nanobind" or
               ("__del__" in vars(each) and each.__module__ not in of_python)
               for kind in kinds for each in kind.__mro__)
