# SPDX-License-Identifier: Apache-2.0
"""Launches a function that passes others of this program to compilers, which need their source."""
import muster
import torch


def shifted_sine(x):
    return torch.sin(x) + 1


def write_length(pointer, length):
    pointer.write(length)


def compiled():
    try:
        from triton import jit
    except ImportError:
        import inspect
        import textwrap

        class jit:
            """A stand-in that reads the source as Triton does."""

            def __init__(self, function):
                self.src = textwrap.dedent(inspect.getsource(function))

    def nested(pointer):
        return pointer
    return (jit.__module__, torch.jit.script(shifted_sine)(torch.zeros(1)).item(),
            jit(write_length).src, jit(nested).src)


print(*muster.launch(compiled, nproc=1)[0], sep="\n")
