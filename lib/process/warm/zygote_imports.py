# SPDX-License-Identifier: Apache-2.0
"""What the zygote imports for its workers, and whether they can be forked from it afterwards."""

import gc
import importlib.util
import sys


def is_missing(name):
    """A module that the command line names and that no worker could import either."""
    try:
        return importlib.util.find_spec(name) is None
    except ModuleNotFoundError as error:
        return name == error.name or name.startswith("%s." % error.name)
    except BaseException:  # it is there, and it fails: that is for the workers to say
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
    """Of those that the command line names; one that fails is known."""
    for name in names:
        if is_missing(name):
            found = resembling(name)
            return "no module is named %s%s" % (
                name, "; did you mean %s?" % found[0] if found else "")
    return None


def import_all(names, program, state, randomness):
    """Imports them; why no worker may be forked afterwards, or None.

    A module that fails is left to the worker, which fails as it would have without us.
    """
    why = program.why_not_begin()
    if why:
        return why
    why = state.why_not_begin()
    if why:
        return "the start of Python " + why
    watching = (program, state, randomness)
    program.hide_own_modules()
    randomness.watch()
    try:
        for name, taken in names:
            try:
                __import__(name, fromlist=taken)  # a name may be a module: from torch.utils import
            except BaseException:  # SystemExit too
                pass
            for each in watching:
                why = each.why_not_fork()
                if why:
                    return "importing %s %s" % (name, why)
    finally:
        randomness.unwatch()
        program.show_own_modules()
    why = state.why_not_share_memory() or randomness.why_not_fork_at_end()
    return "one of the imports " + why if why else None


def end_is_noticed():
    """Whether an object that was made by the imports notices if it is never collected: by a
    finalizer, or because nanobind counts its objects and reports a page of those that are left."""
    kinds = {type(each) for each in gc.get_objects()}
    of_python = ("builtins", "_io", "_socket")  # they only close what the process closes at its end
    return any(each.__module__ == "nanobind" or
               ("__del__" in vars(each) and each.__module__ not in of_python)
               for kind in kinds for each in kind.__mro__)
