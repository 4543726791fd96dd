# SPDX-License-Identifier: Apache-2.0
"""Finds the compiled backend (native/) and combines it with a group implemented in Python."""
from __future__ import annotations

import atexit
import hashlib
import importlib.machinery
import importlib.util
import os
import sys
from typing import Any, List, Optional

import torch

from .. import _library, errors
from .group import ProcessGroup

# "auto": compiled if it has been built for this PyTorch, otherwise Python. "compiled": always
# compiled, after a build if necessary. "python": never compiled.
VARIABLE = "MUSTER_TORCH_BACKEND"
# "inline": asynchronous operations run in the call if the other ranks arrive soon. "thread": they
# run in a thread of the library. "auto": inline if no CPUs are idle, otherwise thread.
ASYNC_VARIABLE = "MUSTER_TORCH_ASYNC"
NAME = "muster_torch_backend"
SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "native")
# Number of seconds that an asynchronous operation waits in the call for the other ranks.
PATIENCE = 0.02


def key() -> str:
    """Identifies the versions that a module was built for: PyTorch, Python, C++ ABI, our
    source."""
    digest = hashlib.sha256()
    for name in sorted(os.listdir(SOURCES)):
        if name.endswith((".hpp", ".cpp")):
            with open(os.path.join(SOURCES, name), "rb") as file:
                digest.update(file.read())
    abi = int(getattr(torch._C, "_GLIBCXX_USE_CXX11_ABI", True))
    return (f"torch-{torch.__version__}-{sys.implementation.cache_tag}-abi{abi}-"
            f"{digest.hexdigest()[:12]}")


def cache_folder() -> str:
    """The directory of the module for these versions."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "muster", "torch-backend", key())


def candidates() -> List[str]:
    """Paths to search for the module: in the package (built manually or by the packager), then in
    the user's cache."""
    return [os.path.join(folder, f"{NAME}.so")
            for folder in (os.path.join(SOURCES, key()), cache_folder())]


def find() -> Optional[str]:
    return next((path for path in candidates() if os.path.exists(path)), None)


_module: Any = None  # the loaded module


def module() -> Any:
    """The compiled module; None if groups use Python. ValueError: the variable has an invalid
    value. ImportError: "compiled" was requested, but the module cannot be built or loaded."""
    global _module
    wanted = os.environ.get(VARIABLE) or "auto"
    if wanted not in ("auto", "compiled", "python"):
        raise ValueError(f"{VARIABLE} is '{wanted}'; use auto, compiled or python")
    if wanted == "python":
        return None
    if _module is None:
        path = find()
        if path is None and wanted == "compiled":
            from .build import build
            path = build()
        if path is not None:
            _module = load(path)
    return _module


def load(path: str) -> Any:
    """Imports the module at this path."""
    loader = importlib.machinery.ExtensionFileLoader(NAME, path)
    spec = importlib.util.spec_from_file_location(NAME, path, loader=loader)
    assert spec is not None
    try:
        loaded: Any = importlib.util.module_from_spec(spec)
        loader.exec_module(loaded)
        loaded.load(_library.PATH)
    except (ImportError, RuntimeError) as error:
        raise ImportError(f"muster: cannot load the compiled backend {path} ({error}); rebuild it "
                          "with python -m muster.torch.build --force, or set "
                          f"{VARIABLE}=python") from error
    atexit.register(loaded.end_all)
    return loaded


def max_wait() -> float:
    """Maximum number of seconds for which a call that starts an asynchronous operation may block;
    0 if a thread runs the operations."""
    wanted = os.environ.get(ASYNC_VARIABLE) or "auto"
    if wanted not in ("auto", "inline", "thread"):
        raise ValueError(f"{ASYNC_VARIABLE} is '{wanted}'; use auto, inline or thread")
    if wanted == "auto":
        ranks = int(os.environ.get("LOCAL_WORLD_SIZE") or 1)
        wanted = ("thread" if ranks * torch.get_num_threads() < len(os.sched_getaffinity(0))
                  else "inline")
    return PATIENCE if wanted == "inline" else 0.0


def wrap(group: ProcessGroup) -> Any:
    """The group for PyTorch: compiled, or the Python group unchanged."""
    native = module()
    if native is None:
        return group
    core = group.comm.core()
    if core.handle is None:
        raise errors.InvalidState("the communicator was closed")
    made = native.make_backend(group, core.handle, core, group.seconds, max_wait())
    group._lock = made.lock()
    return made
