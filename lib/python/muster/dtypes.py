# SPDX-License-Identifier: Apache-2.0
"""Element types: muster's names and numbers, and the names in other packages."""
from __future__ import annotations

from typing import Any, Optional, Tuple

from . import errors
from .typing import DType

# muster's name: (number in the C ABI, size in bytes). The fp8 types are for GPUs only.
TYPES = {"i8": (0, 1), "u8": (1, 1), "i32": (2, 4), "u32": (3, 4), "i64": (4, 8), "u64": (5, 8),
         "f16": (6, 2), "f32": (7, 4), "f64": (8, 8), "bf16": (9, 2), "f8e4m3": (10, 1),
         "f8e5m2": (11, 1)}

# The names in NumPy, ml_dtypes and torch.
_LONG = {"int8": "i8", "uint8": "u8", "int32": "i32", "uint32": "u32", "int64": "i64",
         "uint64": "u64", "float16": "f16", "float32": "f32", "float64": "f64",
         "bfloat16": "bf16", "half": "f16", "float": "f32", "double": "f64", "int": "i32",
         "long": "i64", "char": "i8", "byte": "u8",
         "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2"}

_NUMPY = {"i8": "|i1", "u8": "|u1", "i32": "<i4", "u32": "<u4", "i64": "<i8", "u64": "<u8",
          "f16": "<f2", "f32": "<f4", "f64": "<f8"}

# Format characters of the buffer protocol: signed, unsigned or floating point. The item size is
# given separately.
_FORMATS = {**dict.fromkeys("bhilqn", "i"), **dict.fromkeys("BHILQNc", "u"),
            **dict.fromkeys("efd", "f")}

# DLPack: code and bits.
_DLPACK = {"i8": (0, 8), "i32": (0, 32), "i64": (0, 64), "u8": (1, 8), "u32": (1, 32),
           "u64": (1, 64), "f16": (2, 16), "f32": (2, 32), "f64": (2, 64), "bf16": (4, 16)}
_FROM_DLPACK = {pair: name for name, pair in _DLPACK.items()}


def find(dtype: DType) -> Optional[str]:
    """muster's name for "f32", "float32", numpy.float32, numpy.dtype("float32"), torch.float32 and
    so on; None for types without arithmetic in the library."""
    text: Any
    if isinstance(dtype, str):
        text = dtype
    elif isinstance(dtype, type):
        text = dtype.__name__
    else:
        text = getattr(dtype, "name", None) or str(dtype)
    text = text.rpartition(".")[2]
    return text if text in TYPES else _LONG.get(text)


def require(dtype: DType) -> str:
    """Like find(), but raises InvalidArgument for unknown types."""
    name = find(dtype)
    if name is None:
        raise errors.InvalidArgument(f"unknown element type '{dtype}'; choose one of "
                                     + ", ".join(TYPES))
    return name


def of_format(text: str, size: int) -> Optional[str]:
    """The element type for a buffer's format and item size; None for structs, characters and
    non-native byte order."""
    letters = text.lstrip("@=<")
    kind = _FORMATS.get(letters)
    name = f"{kind}{8 * size}"
    return name if kind and name in TYPES else None


def of_typestr(text: str) -> Optional[str]:
    """The element type for a typestr such as "<f4", as in __array_interface__; None if unknown."""
    name = f"{text[1]}{8 * int(text[2:])}" if text[0] in "<|" and text[1] in "iuf" else None
    return name if name in TYPES else None


def to_typestr(name: str) -> Optional[str]:
    """The typestr for an element type; None for types that NumPy itself does not have (bf16)."""
    return _NUMPY.get(name)


def of_dlpack(code: int, bits: int, lanes: int) -> Optional[str]:
    return _FROM_DLPACK.get((code, bits)) if lanes == 1 else None


def to_dlpack(name: str) -> Tuple[int, int]:
    return _DLPACK[name]
