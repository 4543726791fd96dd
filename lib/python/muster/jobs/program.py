# SPDX-License-Identifier: Apache-2.0
"""Finds the launcher program."""
from __future__ import annotations

import os
import shutil
import sysconfig
from typing import List

VARIABLE = "MUSTER_BIN"
NAME = "muster"


def candidates(package: str = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
               ) -> List[str]:
    """Paths to search for the program, in order: the console scripts of this Python, then `bin` in
    each directory that the package may be installed under."""
    folders = [sysconfig.get_path("scripts")]
    prefix = package
    for _ in range(4):  # PREFIX/lib/python3/dist-packages/muster; TARGET/muster of pip --target
        prefix = os.path.dirname(prefix)
        folders.append(os.path.join(prefix, "bin"))
    return [os.path.join(folder, NAME) for folder in folders]


def is_program(path: str) -> bool:
    """Whether this is an executable file."""
    return os.path.isfile(path) and os.access(path, os.X_OK)


def find() -> str:
    """The path of the launcher: MUSTER_BIN, which must exist if it is set; or else the launcher
    installed with this package; or else the launcher in PATH. Raises FileNotFoundError, with a
    suggested fix, if the launcher is not found."""
    named = os.environ.get(VARIABLE)
    if named:
        if not is_program(named):
            raise FileNotFoundError(f"{VARIABLE}={named}: no such program; unset the variable, or "
                                    "set it to the path of the muster launcher")
        return named
    for path in candidates():
        if is_program(path):
            return path
    found = shutil.which(NAME)
    if found is None:
        raise FileNotFoundError(f"cannot find the muster program next to this package or in PATH; "
                                f"run pip install muster-launch, or set {VARIABLE}")
    return found
