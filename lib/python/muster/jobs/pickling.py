# SPDX-License-Identifier: Apache-2.0
"""Pickles a function for the workers, and finds the modules that it needs."""
from __future__ import annotations

import dis
import importlib.util
import linecache
import os
import pickle
import site
import sys
import sysconfig
import types
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

from .worker import Context, dumps, pickler

SOURCES_MAX = 1 << 22  # characters of cell sources sent with a function; the newest are kept


def pack_call(function: Callable[..., Any], args: Sequence[Any],
              kwargs: Mapping[str, Any], by: Any = None) -> bytes:
    """Pickles a call. `by`: the module that pickles it (pickle or cloudpickle). If an object cannot
    be pickled, the TypeError names the object and suggests a fix."""
    by = by or pickler()
    try:
        return dumps((function, tuple(args), dict(kwargs)), by)
    except Exception as error:
        advice = ("pip install cloudpickle, which can pickle functions from __main__ and notebooks"
                  if by is pickle else "create that object inside the function instead")
        raise TypeError(f"muster.launch: {function!r} or its arguments cannot be sent to the "
                        f"workers: {error}; {advice}") from error


def with_context(call: bytes) -> Tuple[bytes, bytes]:
    """The contents of CONTEXT and of JOB: this process's module search path, and the call."""
    context: Context = (search_path(), sources(), *main_program())
    return pickle.dumps(context), call


def main_program() -> Tuple[Optional[str], Optional[str]]:
    """The file of __main__ (None if there is none, as in a notebook), and its module name if it
    was run with -m."""
    main = sys.modules.get("__main__")
    file: Optional[str] = getattr(main, "__file__", None)
    spec = getattr(main, "__spec__", None)
    is_file = file is not None and os.path.isfile(file)
    return os.path.abspath(file) if file and is_file else None, spec.name if spec else None


def search_path() -> List[str]:
    """sys.path for the workers; an empty entry is the current directory."""
    return [os.path.abspath(entry) for entry in sys.path]


def sources() -> Dict[str, List[str]]:
    """The sources of notebook cells and other code without a file, keyed by the file name that
    tracebacks show."""
    found: Dict[str, List[str]] = {}
    room = SOURCES_MAX
    for name, entry in reversed(list(linecache.cache.items())):
        if not isinstance(entry, tuple) or len(entry) < 4 or os.path.exists(name):
            continue  # short entries are lazy: linecache looks them up on demand
        lines: List[str] = entry[2]
        room -= sum(map(len, lines))
        if room < 0:
            break
        found[name] = list(lines)
    return found


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _named_modules(function: Any, seen: Set[int]) -> Iterator[str]:
    """Modules that the function imports or refers to through its globals. Includes the modules of
    functions that it calls in its own module."""
    code = getattr(function, "__code__", None)
    if code is None or id(code) in seen:
        return
    seen.add(id(code))
    for each in _codes(code):
        for instruction in dis.get_instructions(each):
            if instruction.opname == "IMPORT_NAME":
                yield str(instruction.argval)
        for value in map(function.__globals__.get, each.co_names):
            if isinstance(value, types.ModuleType):
                yield value.__name__
            elif getattr(value, "__globals__", None) is function.__globals__:
                yield from _named_modules(value, seen)
            elif value is not None:
                yield str(getattr(value, "__module__", None) or "")


def _is_installed(name: str) -> bool:
    """Whether a module belongs to Python or to an installed package. Other modules are the user's
    own; they may change between attempts, so the workers import them."""
    try:
        spec = importlib.util.find_spec(name.partition(".")[0])
    except (ImportError, ValueError):
        return False
    if spec is None or not spec.origin or not os.path.isabs(spec.origin):
        return False
    paths = sysconfig.get_paths()
    roots = [paths["stdlib"], paths["purelib"], paths["platlib"], *site.getsitepackages(),
             site.getusersitepackages()]
    return any(spec.origin.startswith(os.path.join(root, "")) for root in roots)


def modules_of(function: Any) -> List[str]:
    """The installed modules that a function needs, sorted; with warm=True they are imported
    once."""
    names = set(_named_modules(function, set()))
    return sorted(name for name in names if name and _is_installed(name))
