# SPDX-License-Identifier: Apache-2.0
"""The compiled back end (native/): where it is, and how it and a group in Python become one."""
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

# "auto": compiled where it was built for this PyTorch, else in Python. "compiled": builds it where
# it was not. "python": never the compiled one.
VARIABLE = "MUSTER_TORCH_BACKEND"
# "inline": asynchronous operations are performed in the call if the other ranks come soon.
# "thread": in a thread of the library. "auto": inline where there are no processors to spare.
ASYNC_VARIABLE = "MUSTER_TORCH_ASYNC"
NAME = "muster_torch_backend"
SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "native")
# How long an asynchronous operation waits for the other ranks in the call, seconds.
PATIENCE = 0.02


def key() -> str:
    """Names the versions that a module fits: PyTorch's, Python's, the C++ ABI, our source."""
    digest = hashlib.sha256()
    for name in sorted(os.listdir(SOURCES)):
        if name.endswith((".hpp", ".cpp")):
            with open(os.path.join(SOURCES, name), "rb") as file:
                digest.update(file.read())
    abi = int(getattr(torch._C, "_GLIBCXX_USE_CXX11_ABI", True))
    return (f"torch-{torch.__version__}-{sys.implementation.cache_tag}-abi{abi}-"
            f"{digest.hexdigest()[:12]}")


def cache_folder() -> str:
    """Where the module for these versions is built."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "muster", "torch-backend", key())


def candidates() -> List[str]:
    """Paths where the module may be: in the package, built by hand or by who has packed it, or in
    the user's cache."""
    return [os.path.join(folder, f"{NAME}.so")
            for folder in (os.path.join(SOURCES, key()), cache_folder())]


def find() -> Optional[str]:
    return next((path for path in candidates() if os.path.exists(path)), None)


_module: Any = None  # the loaded one


def module() -> Any:
    """The compiled module; None: groups are Python's. ValueError: the variable has another word.
    ImportError: the module is asked for by name, and cannot be built or loaded."""
    global _module
    wanted = os.environ.get(VARIABLE) or "auto"
    if wanted not in ("auto", "compiled", "python"):
        raise ValueError(f"{VARIABLE} is '{wanted}'; it is auto, compiled or python")
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
        raise ImportError(f"muster: cannot load the compiled back end {path} ({error}); build it "
                          "again with python -m muster.torch.build --force, or set "
                          f"{VARIABLE}=python") from error
    atexit.register(loaded.end_all)
    return loaded


def max_wait() -> float:
    """How long asynchronous operations wait in the call, seconds; 0: a thread performs them."""
    wanted = os.environ.get(ASYNC_VARIABLE) or "auto"
    if wanted not in ("auto", "inline", "thread"):
        raise ValueError(f"{ASYNC_VARIABLE} is '{wanted}'; it is auto, inline or thread")
    if wanted == "auto":
        ranks = int(os.environ.get("LOCAL_WORLD_SIZE") or 1)
        wanted = ("thread" if ranks * torch.get_num_threads() < len(os.sched_getaffinity(0))
                  else "inline")
    return PATIENCE if wanted == "inline" else 0.0


def wrap(group: ProcessGroup) -> Any:
    """The group as PyTorch is given it: compiled, or as it is."""
    native = module()
    if native is None:
        return group
    core = group.comm.core()
    if core.handle is None:
        raise errors.InvalidState("the communicator was closed")
    made = native.make_backend(group, core.handle, core, group.seconds, max_wait())
    group._lock = made.lock()
    return made
