# SPDX-License-Identifier: Apache-2.0
"""Copies of one array, as in a commit of muster.elastic: commit.py ROUNDS. Prints lines "WAY; MIB;
MILLISECONDS". State and TorchState copy to the memory of the commit before the last."""
import sys
import time

import numpy
import torch

from muster import elastic

CALLS = {1: 50, 16: 10, 256: 1}  # MiB: calls in a round


def milliseconds(call, times):
    begin = time.perf_counter()
    for _ in range(times):
        call()
    return 1e3 * (time.perf_counter() - begin) / times


def ways_of(mib):
    array = numpy.ones(mib << 18, numpy.float32)
    other = array.copy()
    holder = torch.nn.ParameterDict({'weights': torch.from_numpy(array)})
    return {'memcpy': lambda: numpy.copyto(other, array),
            'copy': array.copy,
            'State': elastic.State(weights=array).commit,
            'TorchState': elastic.TorchState(model=holder).commit}


def main():
    torch.set_num_threads(1)
    for mib, times in CALLS.items():
        ways = ways_of(mib)
        for way in ways.values():
            way()
        for _ in range(int(sys.argv[1])):
            for name, way in ways.items():
                print(f'{name}; {mib}; {milliseconds(way, times)}')


main()
