# SPDX-License-Identifier: Apache-2.0
"""Locates the compiled backend for a version of PyTorch, Python and our source."""
from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from typing import List, Optional

import torch

NAME = "muster_torch_backend"
SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "native")


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
    """The cache directory for the module that was built for the current versions (see key)."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "muster", "torch-backend", key())


def candidates() -> List[str]:
    """Paths to search for the module: in the wheel muster-launch-torch, in this package (copied
    there by a packager), then in the user's cache."""
    prebuilt = importlib.util.find_spec("muster_launch_torch")
    folders = [*(prebuilt.submodule_search_locations or () if prebuilt else ()), SOURCES]
    return [os.path.join(folder, f"{NAME}.so")
            for folder in (*(os.path.join(one, key()) for one in folders), cache_folder())]


def find() -> Optional[str]:
    return next((path for path in candidates() if os.path.exists(path)), None)
