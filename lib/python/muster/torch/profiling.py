# SPDX-License-Identifier: Apache-2.0
"""Integrates the operations with PyTorch's tools: adds ranges to profiles, and keeps compilers
from tracing into the operations."""
from __future__ import annotations

import functools
import threading
import types
from typing import Any, Callable, Dict

import torch

from .tensors import all_of
from .work import PROFILER_PATIENCE, Work

# Maps each method to its name in the profiler. PyTorch's own backends use the same names.
NAMES: Dict[str, str] = {
    "allreduce": "all_reduce", "allreduce_coalesced": "all_reduce", "reduce": "reduce",
    "broadcast": "broadcast", "allgather": "all_gather", "_allgather_base": "_all_gather_base",
    "allgather_coalesced": "all_gather",
    "gather": "gather", "scatter": "scatter", "reduce_scatter": "reduce_scatter",
    "_reduce_scatter_base": "_reduce_scatter_base", "alltoall": "all_to_all",
    "alltoall_base": "all_to_all", "barrier": "barrier", "send": "send", "recv": "recv",
    "recv_anysource": "recvAnySource"}
_is_profiled: Callable[[], bool] = getattr(torch._C._autograd, "_profiler_enabled", lambda: False)


def watch(group: Any) -> None:
    """Wraps the operations of the class."""
    for method, name in NAMES.items():
        setattr(group, method, _watched(getattr(group, method), name))


def leave_alone(*kinds: type) -> None:
    """Makes torch.compile call the methods of these classes instead of tracing into them. This
    includes methods that PyTorch's C++ code calls while a compiled function runs. Does not import
    the compiler."""
    at: Any = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)
    for method in [each for kind in kinds for each in vars(kind).values()]:
        if isinstance(method, types.FunctionType):
            method._torchdynamo_disable = True  # type: ignore[attr-defined]
            if hasattr(at, "set_code_exec_strategy"):
                skip = at._FrameAction.SKIP
                at.set_code_exec_strategy(method.__code__, at._FrameExecStrategy(skip, skip))


def _watched(operation: Any, name: str) -> Any:
    # The inputs are the first argument, or the second if outputs come first.
    at = 1 if any(word in name for word in ("gather", "scatter", "to_all")) else 0

    @functools.wraps(operation)
    def call(self: Any, *args: Any, **named: Any) -> Any:
        if not _is_profiled() or self.is_profiled:
            return operation(self, *args, **named)
        self.is_profiled = True  # nested calls belong to the same range
        begun = _Range(torch.autograd._record_function_with_args_enter(f"{self.label}:{name}",
                                                                       *all_of(args[at:at + 1])))
        work: Any = None
        try:
            work = operation(self, *args, **named)
        finally:
            self.is_profiled = False
            self.completer.add(work or Work(), begun)
        work.is_seen = begun.is_over
        if work.is_completed():
            begun.is_over.wait(PROFILER_PATIENCE)
        return work
    return call


class _Range:
    """A profiler range. As in PyTorch's own backends, it ends with the operation. The thread
    that completes the futures ends it."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self.is_over = threading.Event()

    def set_result(self, _: Any) -> None:
        torch.autograd._record_function_with_args_exit(self._handle)
        self.is_over.set()
