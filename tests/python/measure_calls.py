# SPDX-License-Identifier: Apache-2.0
"""Prints how long all_reduce of a NumPy array takes, in a loop. Not a test. On two ranks:
    MUSTER_COLLECTIVE_LIBRARY=… PYTHONPATH=lib/python muster --nproc-per-node=2 \\
        tests/python/measure_calls.py"""
import time

import numpy

import muster

CALLS, ROUNDS = 2000, 10


def microseconds(comm, x):
    begin = time.perf_counter()
    for _ in range(CALLS):
        comm.all_reduce(x)
    return (time.perf_counter() - begin) / CALLS * 1e6


with muster.Communicator.from_env() as comm:
    for count in (1, 256):
        x = numpy.zeros(count, "f4")
        took = sorted(microseconds(comm, x) for _ in range(ROUNDS))
        if comm.rank == 0:
            print(f"{x.nbytes} B: {took[ROUNDS // 2]:.2f} us ({took[0]:.2f} to {took[-1]:.2f})")
