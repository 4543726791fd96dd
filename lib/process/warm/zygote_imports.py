# SPDX-License-Identifier: Apache-2.0
"""Imports modules for the workers and checks whether workers can be forked afterwards."""

import gc
import importlib.util
import os
import sys


def is_missing(name):
    """True if a module named on the command line does not exist, so no worker could import it
    either."""
    try:
        return importlib.util.find_spec(name) is None
    except ModuleNotFoundError as error:
        return name == error.name or name.startswith("%s." % error.name)
    except BaseException:  # the module exists but fails; the worker will report it
        return False


def resembling(name):
    import difflib
    import pkgutil

    parent = name.rpartition(".")[0]
    if parent:
        folders = list(getattr(sys.modules.get(parent), "__path__", ()))
        known = ["%s.%s" % (parent, each.name) for each in pkgutil.iter_modules(folders)]
    else:
        known = [each.name for each in pkgutil.iter_modules()]
        known += getattr(sys, "stdlib_module_names", ())
    return difflib.get_close_matches(name, known, 1)


def why_unknown(names):
    """Returns why a module on the command line is unknown, or None. A module that exists but
    cannot be imported is not unknown. Ignores submodules of packages that are not imported, because
    the search for them would import the package."""
    for name in names:
        parent = name.rpartition(".")[0]
        if (not parent or parent in sys.modules) and is_missing(name):
            found = resembling(name)
            return "no module named %s%s" % (
                name, "; did you mean %s?" % found[0] if found else "")
    return None


def why_not_begin(program, state):
    """Why workers cannot be forked from this process even if nothing is imported, or None."""
    why = program.why_not_begin()
    if why:
        return why
    why = state.why_not_begin()
    return "Python startup " + why if why else None


def import_all(names, *watching):
    """Imports the modules, which are given as (module, names imported from it). Returns the name of
    the module after which no worker may be forked, with the reason, or None. Ignores failing
    imports, because the worker then fails as in a cold start. `watching`: objects to query after
    each import; the first three are the program, the state and the randomness."""
    program, state, randomness, *_ = watching
    program.hide_own_modules()
    randomness.watch()
    try:
        for name, taken in names:
            try:
                __import__(name, fromlist=taken)  # a name may be a submodule
            except BaseException:  # including SystemExit
                pass
            for each in watching:
                why = each.why_not_fork()
                if why:
                    return name, why
    finally:
        randomness.unwatch()
        program.show_own_modules()
    why = state.why_not_share_memory() or randomness.why_not_fork_at_end()
    return (None, why) if why else None


def culprit(name, why):
    return ("importing %s " % name if name else "one of the imports ") + why


class Output:
    """Detects output from modules that are imported ahead of time, because in a cold start the
    worker would print it."""

    def __init__(self, state):
        self.state = state

    def __enter__(self):
        self.kept, self.before = [os.dup(1), os.dup(2)], self.state.descriptors
        self.file = os.memfd_create("output")
        for number in (1, 2):
            os.dup2(self.file, number)
        self.state.descriptors = {**descriptors(), **{number: target for number, target in
                                                      self.before.items() if number > 2}}
        return self

    def why_not_fork(self):
        libc.fflush(None)
        return "has printed something" if os.fstat(self.file).st_size else None

    def __exit__(self, *_):
        for number, file in enumerate(self.kept, 1):
            os.dup2(file, number)
            os.close(file)
        os.close(self.file)
        self.state.descriptors = self.before
        self.state.why_not_share(descriptors())  # recomputes which files workers reopen


def end_is_noticed():
    """True if an imported object must be collected at exit: it has a finalizer, or belongs to
    nanobind, which counts its objects and reports leaks."""
    kinds = {type(each) for each in gc.get_objects()}
    of_python = ("builtins", "_io", "_socket")  # finalizers that only close files
    return any(each.__module__ == "nanobind" or
               ("__del__" in vars(each) and each.__module__ not in of_python)
               for kind in kinds for each in kind.__mro__)
