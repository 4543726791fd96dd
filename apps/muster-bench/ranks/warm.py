# SPDX-License-Identifier: Apache-2.0
"""A worker that needs PyTorch: warm.py FOLDER CRASHES [ddp | steps COUNT]. ddp: it also takes a
step of DistributedDataParallel. steps: rank 0 writes the mean CPU time of COUNT such steps."""
import sys
import time

import crashing
import torch


def make_step():
    """Returns a function that takes a step. Imports 900 more modules of PyTorch."""
    torch.distributed.init_process_group('gloo')
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
    inputs = torch.ones(4, 8)
    return lambda: model(inputs).sum().backward()


def measure_steps(step, count):
    begin = time.process_time()
    for _ in range(count):
        step()
    took = time.process_time() - begin
    if crashing.rank == 0:
        (crashing.folder / 'step').write_text(str(took / count))


if sys.argv[3:]:
    take_step = make_step()
    take_step()
    if sys.argv[3] == 'steps':
        measure_steps(take_step, int(sys.argv[4]))
crashing.run()
