# SPDX-License-Identifier: Apache-2.0
"""Overloads of a group's operations. They accept PyTorch's options, or an op, a root rank and a
timeout. They also accept lists of tensors or a single tensor."""
from __future__ import annotations

from datetime import timedelta
from typing import Any, Optional, Sequence

import torch
import torch.distributed as dist

# PyTorch's options for an operation: AllreduceOptions and so on, which have no common base class.
Options = Any
# A list of tensors, or one tensor.
Tensors = Any


class Default:
    """The default options of operations."""

    timeout: Optional[timedelta] = None
    asyncOp = True
    rootRank = 0
    reduceOp: Any = dist.ReduceOp.SUM


class Within(Default):
    """The options for operations inside other operations. The caller waits for these
    immediately."""

    asyncOp = False


def options(given: Any, timeout: Optional[timedelta], *, op: Any = None,
            root: Optional[int] = None) -> Options:
    """given: the argument passed in place of the options. It may be options, an op, a root rank or
    a timeout."""
    if hasattr(given, "timeout") and timeout is None and op is None and root is None:
        return given
    made = Default()
    made.timeout = timeout
    if isinstance(given, timedelta):
        made.timeout = given
    elif isinstance(given, int):
        root = given
    elif not isinstance(given, type) and given is not None:
        op = given
    if op is not None:
        made.reduceOp = op
    if root is not None:
        made.rootRank = root
    return made


def as_list(tensors: Tensors) -> Sequence[torch.Tensor]:
    return [tensors] if isinstance(tensors, torch.Tensor) else tensors


def as_lists(tensors: Any) -> Sequence[Sequence[torch.Tensor]]:
    """A list of lists of tensors; wraps a plain list of tensors."""
    if len(tensors) > 0 and isinstance(tensors[0], torch.Tensor):
        return [tensors]
    lists: Sequence[Sequence[torch.Tensor]] = tensors
    return lists


def seconds_of(opts: Options) -> float:
    """The timeout of a call in seconds, or 0 to use the group's timeout. PyTorch passes a negative
    value if no timeout is set."""
    timeout = getattr(opts, "timeout", None)
    seconds = timeout.total_seconds() if timeout is not None else 0
    return max(0.0, seconds)
