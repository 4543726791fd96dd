# SPDX-License-Identifier: Apache-2.0
"""With MUSTER_TORCH_REPLACES=gloo, muster provides the groups of programs that request gloo, under
gloo's name. Importing muster.torch activates this. install() activates it for programs that do not
import muster; it does not import PyTorch."""
from __future__ import annotations

import importlib.abc
import importlib.util
import os
import sys
from typing import Any, Optional

VARIABLE = "MUSTER_TORCH_REPLACES"
_MODULE = "torch.distributed.distributed_c10d"


def is_wanted() -> bool:
    """Whether the environment enables the replacement. ValueError: it names a backend other than
    gloo."""
    name = os.environ.get(VARIABLE, "")
    if name not in ("", "gloo"):
        raise ValueError(f"{VARIABLE} is '{name}'; muster can replace only the gloo backend")
    return bool(name)


def replace(c10d: Any) -> None:
    """Makes muster create gloo's groups, if the environment enables that. c10d: PyTorch's module
    distributed_c10d. A second call does nothing."""
    if not is_wanted() or hasattr(c10d, "_muster_replaces_gloo"):
        return
    c10d._muster_replaces_gloo = True
    if not hasattr(c10d, "_create_gloo_process_group"):
        c10d.ProcessGroupGloo = _create_in_python  # earlier versions use gloo's class directly
        return
    c10d._create_gloo_process_group = _create  # used when gloo is registered
    backend = c10d.Backend
    backend._ensure_backend_registered("gloo")
    backend._plugins["GLOO"] = backend._plugins["GLOO"]._replace(creator_fn=_create)
    # DDP's logger casts every backend whose type is GLOO to ProcessGroupGloo.
    backend.backend_type_map["gloo"] = c10d.ProcessGroup.BackendType.CUSTOM


def install() -> None:
    """Calls replace() as soon as the program imports torch.distributed."""
    if not is_wanted():
        return
    loaded = sys.modules.get(_MODULE)
    if loaded is not None:
        replace(loaded)
    else:
        sys.meta_path.insert(0, _Finder())


def _create(opts: Any, _: Any = None) -> Any:
    """Replaces gloo's factory function."""
    from .torch.bootstrap import create
    return create(opts.store, opts.group_rank, opts.group_size, opts.timeout, label="gloo")


def _create_in_python(store: Any, rank: int, size: int, timeout: Any) -> Any:
    """Replaces gloo's class. PyTorch versions that use this class assign gloo's type to the group,
    so the replacement must not be the compiled backend."""
    from .torch.bootstrap import create_in_python
    return create_in_python(store, rank, size, timeout, label="gloo")


class _Finder(importlib.abc.MetaPathFinder):
    """Delegates the lookup of one module to the other finders, and calls replace() once that module
    is loaded."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Optional[Any]:
        if name != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        loader: Any = spec.loader if spec is not None else None
        if loader is not None:
            load = loader.exec_module

            def exec_module(module: Any) -> None:
                load(module)
                replace(module)
            loader.exec_module = exec_module
        return spec
