# SPDX-License-Identifier: Apache-2.0
"""Deep copies that reuse the memory of earlier copies. New memory costs more time than the copy
itself, because the kernel clears each page."""
from __future__ import annotations

import copy
import sys
from typing import Any, Callable, Dict, List, NamedTuple, Sequence

_SCALARS = {int, float, bool, str, bytes, type(None)}  # lists may contain millions of them


class Kind(NamedTuple):
    """A type of arrays. has: whether a value is an array of this kind. layout: arrays with equal
    layouts can use each other's memory. new: an array of the same layout as another one, as
    copy.deepcopy would lay it out. copy(targets, sources): copies the elements."""

    has: Callable[[Any], bool]
    layout: Callable[[Any], Any]
    new: Callable[[Any], Any]
    copy: Callable[[List[Any], List[Any]], None]


def arrays_in(value: Any, kinds: Sequence[Kind]) -> List[Any]:
    """The arrays in dicts, lists and tuples, each of them once. Leaves out containers that define
    their own deep copy, because it may share arrays with the original."""
    found: Dict[int, Any] = {}
    seen = set()  # containers may contain themselves
    waiting = [value]
    for each in waiting:
        if any(kind.has(each) for kind in kinds):
            found[id(each)] = each
        elif isinstance(each, (dict, list, tuple)) and id(each) not in seen:
            seen.add(id(each))
            values = each.values() if isinstance(each, dict) else each
            if not (_SCALARS.issuperset(map(type, values)) or hasattr(type(each), "__deepcopy__")):
                waiting.extend(values)
    return list(found.values())


def copy_of(value: Any, spare: Sequence[Any], kinds: Sequence[Kind]) -> Any:
    """Like copy.deepcopy(value), but uses the memory of these arrays where they fit."""
    memo: Dict[int, Any] = {}
    found = arrays_in(value, kinds)
    for kind in kinds:
        sources = list(filter(kind.has, found))
        free: Dict[Any, List[Any]] = {}
        for each in filter(kind.has, reversed(spare)):
            free.setdefault(kind.layout(each), []).append(each)
        targets = [free[layout].pop() if free.get(layout) else kind.new(source)
                   for source, layout in zip(sources, map(kind.layout, sources))]
        kind.copy(targets, sources)
        memo.update(zip(map(id, sources), targets))
    return copy.deepcopy(value, memo)


def _is_array(value: Any) -> bool:
    """A NumPy array without references to objects. A program without NumPy has none."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(value) is numpy.ndarray and not value.dtype.hasobject


def _copy_arrays(targets: List[Any], sources: List[Any]) -> None:
    for target, source in zip(targets, sources):
        sys.modules["numpy"].copyto(target, source)


ARRAYS = Kind(_is_array, lambda array: (array.dtype, array.shape, array.strides),
              lambda array: sys.modules["numpy"].empty_like(array), _copy_arrays)
