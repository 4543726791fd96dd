# SPDX-License-Identifier: Apache-2.0
"""Where the launcher's program is."""
from __future__ import annotations

import os
import shutil
import sysconfig
from typing import List

VARIABLE = "MUSTER_BIN"
NAME = "muster"


def candidates(package: str = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
               ) -> List[str]:
    """Paths where the program may be, in the order of the search: the console scripts of this
    Python, then `bin` of each folder that the package may be installed below."""
    folders = [sysconfig.get_path("scripts")]
    prefix = package
    for _ in range(4):  # PREFIX/lib/python3/dist-packages/muster; TARGET/muster of pip --target
        prefix = os.path.dirname(prefix)
        folders.append(os.path.join(prefix, "bin"))
    return [os.path.join(folder, NAME) for folder in folders]


def is_program(path: str) -> bool:
    """Whether this is a file that may be executed."""
    return os.path.isfile(path) and os.access(path, os.X_OK)


def find() -> str:
    """The path of the launcher: what MUSTER_BIN names, which must exist; else one that was
    installed with this package; else the one in PATH. FileNotFoundError says what to do."""
    named = os.environ.get(VARIABLE)
    if named:
        if not is_program(named):
            raise FileNotFoundError(f"{VARIABLE}={named}: there is no such program; unset the "
                                    "variable, or name the launcher muster")
        return named
    for path in candidates():
        if is_program(path):
            return path
    found = shutil.which(NAME)
    if found is None:
        raise FileNotFoundError(f"the program muster is neither beside this package nor in PATH; "
                                f"install muster-launch with pip, or name it in {VARIABLE}")
    return found
