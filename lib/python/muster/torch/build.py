# SPDX-License-Identifier: Apache-2.0
"""Builds the compiled backend for the current PyTorch and Python, in the user's cache:

    python -m muster.torch.build [--force]

It takes about a minute, once, and needs a C++ compiler, ninja, and the headers of Python and
PyTorch. Groups created after that use it. Jobs do the same in the background the first time the
module is missing (background.py).
"""
from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import shutil
import sys
import sysconfig
import tempfile
from typing import Iterator, List, Optional

import torch

from .built import NAME, SOURCES, cache_folder
from .version import VERSION

OLDEST = (2, 4)
FAILED = "failed"  # a file in the cache folder: a build in the background has failed
WORK = "work-"     # prefix of the folders in which builds run


def c_interface() -> str:
    """The directory that contains collective.h: in the package, or in its source tree."""
    tree = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(SOURCES))))
    for folder in (os.path.join(SOURCES, "muster"), os.path.join(tree, "muster")):
        if os.path.exists(os.path.join(folder, "collective.h")):
            return folder
    raise ImportError(f"muster: {SOURCES}/muster/collective.h is missing: the package is "
                      "incomplete; reinstall it")


def link_headers(work: str) -> str:
    """Creates an include directory with the same layout as the source tree, which the sources
    expect."""
    include = os.path.join(work, "include")
    package = os.path.join(include, "python", "muster", "torch")
    os.makedirs(package)
    os.symlink(SOURCES, os.path.join(package, "native"))
    os.symlink(c_interface(), os.path.join(include, "muster"))
    return include


def check() -> None:
    """Checks the build's prerequisites. The ImportError names the missing prerequisite."""
    if VERSION < OLDEST:
        raise ImportError("muster: the compiled backend needs PyTorch 2.4 or later; this is "
                          f"{torch.__version__}")
    compiler = os.environ.get("CXX", "c++").split()[0]
    if shutil.which(compiler) is None:
        raise ImportError(f"muster: building the backend needs a C++ compiler, but '{compiler}' "
                          "was not found: install one, or set CXX")
    if shutil.which("ninja") is None:
        raise ImportError("muster: building the backend needs ninja: pip install ninja")
    include = sysconfig.get_paths()["include"]
    if not os.path.exists(os.path.join(include, "Python.h")):
        raise ImportError(f"muster: {include}/Python.h is missing: install Python's headers "
                          "(Debian: python3-dev)")


@contextlib.contextmanager
def alone(folder: str) -> Iterator[None]:
    """Locks out other processes, because all ranks of a job may start a build at once."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "lock"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def build(force: bool = False, verbose: bool = False) -> str:
    """The path of the module; builds it if missing. ImportError: the build failed."""
    folder = cache_folder()
    with alone(folder):
        return build_locked(folder, force, verbose)


def build_locked(folder: str, force: bool, verbose: bool) -> str:
    """Like build(), for a caller that holds the folder's lock."""
    path = os.path.join(folder, f"{NAME}.so")
    if force or not os.path.exists(path):
        check()
        for name in os.listdir(folder):
            if name.startswith(WORK):  # of a build that was killed
                shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=WORK, dir=folder) as work:
            os.replace(compile_in(work, verbose), path)
    return path


def build_in_background() -> None:
    """For detached.py, which holds the lock and writes standard output to the log."""
    folder = cache_folder()
    try:
        print(build_locked(folder, force=False, verbose=True))
    except Exception as error:  # pylint: disable=broad-except
        print(error, flush=True)
        with open(os.path.join(folder, FAILED), "w"):
            pass


def compile_in(work: str, verbose: bool) -> str:
    """Compiles in an empty directory and returns the module's path there."""
    from torch.utils import cpp_extension
    source = os.path.join(SOURCES, "module.cpp")
    try:
        cpp_extension.load(NAME, [source], extra_include_paths=[link_headers(work)],
                           extra_cflags=["-O2", "-fvisibility=hidden"], build_directory=work,
                           is_python_module=False, verbose=verbose)
    except RuntimeError as error:
        raise ImportError(f"muster: cannot build the compiled backend: {error}") from error
    return os.path.join(work, f"{NAME}.so")


def main(args: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m muster.torch.build",
        description="Builds the compiled backend for this PyTorch and this Python.")
    parser.add_argument("--force", action="store_true", help="rebuild even if it exists")
    parser.add_argument("--verbose", action="store_true", help="show the compiler command")
    given = parser.parse_args(args)
    try:
        print(build(given.force, given.verbose))
    except ImportError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
