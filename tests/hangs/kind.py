# SPDX-License-Identifier: Apache-2.0
"""The description of a kind of hang, and code shared by all kinds (kinds.py, torch_kinds.py)."""
import ctypes
import os

FOREVER = 100_000.0
KINDS = {}


class Kind:
    """ranks: their number; blamed: the ranks that the verdict may name first; causes: the correct
    ones; comm: the ranks are in operations of muster's collective library; trains: with DDP."""

    def __init__(self, run, causes, ranks, blamed, comm, words, needs, torch, trains):
        self.run, self.causes, self.ranks, self.blamed = run, causes, ranks, blamed
        self.comm, self.words, self.needs = comm, words, needs
        self.torch, self.trains = torch, trains


def kind(*causes, ranks=3, blamed=(1,), comm=True, words="", needs="", torch="",
         trains=False):
    """torch: the PyTorch backend that the ranks use, instead of the library itself."""
    def add(function):
        KINDS[function.__name__] = Kind(function, causes, ranks, blamed, comm and not torch, words,
                                        needs, torch, trains)
        return function
    return add


def only_rank_1(function):
    """The others wait for it in an operation."""
    def run(comm):
        if comm.rank == 1:
            function(comm)
        comm.barrier()
    run.__name__ = function.__name__
    return run


class Alone:
    """Without the collective library."""
    rank, size = 0, 1

    def barrier(self):
        pass


def library():
    return ctypes.CDLL(os.environ["HANGS_LIBRARY"])
