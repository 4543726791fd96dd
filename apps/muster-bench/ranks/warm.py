# SPDX-License-Identifier: Apache-2.0
"""A worker that needs PyTorch: warm.py FOLDER CRASHES [ddp]. It records when it reaches user
code, or has taken a step of DistributedDataParallel, in the format of measure/notes.py. In each of
the first CRASHES attempts, rank 0 then crashes. It alternates between exit code 1 and SIGKILL,
because the shutdown of Python itself takes a long time. In the last attempt, each rank records its
share of the memory."""
import os
import signal
import sys
import time
from pathlib import Path

import torch  # noqa: F401  this import dominates the startup time

folder, crashes = Path(sys.argv[1]), int(sys.argv[2])
rank, world = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])
attempt = int(os.environ['TORCHELASTIC_RESTART_COUNT'])


def note(event):
    file = os.open(folder / 'notes', os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, f'{event} {attempt} {rank} {time.monotonic_ns()}\n'.encode())
    os.close(file)


def wait_for_all(event):
    """Polls until all ranks have recorded the event."""
    wanted = f'{event} {attempt} '
    while (folder / 'notes').read_text().count(wanted) < world:
        time.sleep(0.005)


def take_step():
    """Imports 900 more modules of PyTorch."""
    torch.distributed.init_process_group('gloo')
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
    model(torch.ones(4, 8)).sum().backward()


if 'ddp' in sys.argv[3:]:
    take_step()
note('start')
if attempt < crashes:
    if rank != 0:
        signal.pause()
    wait_for_all('start')
    note('crash')
    if attempt % 2:
        os.kill(os.getpid(), signal.SIGKILL)
    sys.exit(1)
wait_for_all('start')
rollup = Path('/proc/self/smaps_rollup').read_text().split('\n')
kib = next(line.split()[1] for line in rollup if line.startswith('Pss:'))
(folder / f'pss{rank}').write_text(kib)
while len(list(folder.glob('pss*'))) < world:  # a rank's share grows when another rank exits
    time.sleep(0.005)
