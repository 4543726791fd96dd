# SPDX-License-Identifier: Apache-2.0
"""Loads the compiled backend (native/) and combines it with a group implemented in Python."""
from __future__ import annotations

import atexit
import importlib.machinery
import importlib.util
import os
from typing import Any

import torch

from .. import _library, errors
from .built import NAME, find
from .group import ProcessGroup

# "auto": compiled if it has been built for this PyTorch, otherwise Python, and starts a build for
# later jobs. "compiled": always compiled, after a build if necessary. "python": never compiled.
VARIABLE = "MUSTER_TORCH_BACKEND"
# "inline": asynchronous operations run in the call if the other ranks arrive soon. "thread": they
# run in a thread of the library. "auto": inline if no CPUs are idle, otherwise thread.
ASYNC_VARIABLE = "MUSTER_TORCH_ASYNC"
# Maximum number of seconds that a call waits for the other ranks when it starts an asynchronous
# operation.
PATIENCE = 0.02


_module: Any = None  # the loaded module
_was_missing = False  # a build for later jobs was considered


def module(rank: int) -> Any:
    """The compiled module; None if process groups use the Python code. rank: this process's, if
    RANK is not set. ValueError: a variable has an invalid value. ImportError: "compiled" was
    requested, but the module cannot be built or loaded."""
    global _module, _was_missing
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
        if path is None and not _was_missing:
            _was_missing = True
            from . import background
            background.start(rank)
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
    native = module(group.rank())
    if native is None:
        return group
    core = group.comm.core()
    if core.handle is None:
        raise errors.InvalidState("the communicator was closed")
    made = native.make_backend(group, core.handle, core, group.seconds, max_wait())
    group._lock = made.lock()
    return made
