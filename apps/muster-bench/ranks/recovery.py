# SPDX-License-Identifier: Apache-2.0
"""A rank that trains with DistributedDataParallel until it is killed: recovery.py FOLDER MODE
BACKEND COMMIT_STEPS. The model has 0.9 MB, and a step takes at least 5 ms.

MODE: elastic (muster.elastic, a commit every COMMIT_STEPS steps), checkpoint (rank 0 saves the
state every 100 steps; all ranks load it when they start) or plain (the state is never saved).

After each step, each rank appends the number of the step, the host's monotonic time and its pid to
FOLDER/stepsRANK (measure/step_log.py). Rank 0 saves the weights of every 500th step."""
import os
import struct
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

STEP_S = 0.005
CHECKPOINT_STEPS = 100
WEIGHTS_STEPS = 500
WIDTH, HIDDEN, BATCH, CLASSES = 64, 440, 16, 10
folder, mode, backend = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
commit_steps = int(sys.argv[4])


def own_rank():
    """A spare worker has no rank before elastic.run."""
    return int(os.environ['RANK'])


def replace(name, write):
    """Other processes see a complete file, or none."""
    write(folder / f'{name}.new')
    (folder / f'{name}.new').rename(folder / name)


def make():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(),
                          nn.Linear(HIDDEN, CLASSES))
    return model, torch.optim.Adam(model.parameters())


class Log:
    """What the benchmark reads."""

    def __init__(self, model):
        self._model = model
        self._file = None

    def note(self, step):
        now = time.monotonic_ns()
        if self._file is None:
            path = folder / f'steps{own_rank()}'
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(self._file, struct.pack('3q', step, now, os.getpid()))
        if own_rank() == 0 and step % WEIGHTS_STEPS == 0:
            weights = nn.utils.parameters_to_vector(self._model.parameters()).detach()
            replace(f'weights-{step}', lambda path: path.write_bytes(weights.numpy().tobytes()))


def take_step(ddp, optimizer, step):
    """The data depend only on the step and the rank."""
    begin = time.monotonic()
    generator = torch.Generator().manual_seed(64 * step + own_rank())
    data = torch.randn(BATCH, WIDTH, generator=generator)
    optimizer.zero_grad()
    cross_entropy(ddp(data), data[:, :CLASSES].argmax(1)).backward()
    optimizer.step()
    time.sleep(max(0, begin + STEP_S - time.monotonic()))


def train_elastic(model, optimizer, log):
    from muster import elastic

    @elastic.run(backend=backend)
    def train(state):
        ddp = DistributedDataParallel(state.model)
        while True:
            take_step(ddp, state.optimizer, state.step)
            state.step += 1
            if state.step % commit_steps == 0:
                state.commit()
            log.note(state.step)

    train(elastic.TorchState(model=model, optimizer=optimizer, step=0))


def train_plain(model, optimizer, log):
    if backend == 'muster':
        import muster.torch  # noqa: F401, registers the backend
    torch.distributed.init_process_group(backend)
    step, checkpoint = 0, folder / 'checkpoint'
    if checkpoint.exists():
        loaded = torch.load(checkpoint)
        model.load_state_dict(loaded['model'])
        optimizer.load_state_dict(loaded['optimizer'])
        step = loaded['step']
    ddp = DistributedDataParallel(model)
    while True:
        take_step(ddp, optimizer, step)
        step += 1
        log.note(step)
        if mode == 'checkpoint' and own_rank() == 0 and step % CHECKPOINT_STEPS == 0:
            state = {'model': model.state_dict(), 'optimizer': optimizer.state_dict(), 'step': step}
            replace('checkpoint', lambda path: torch.save(state, path))


def main():
    torch.set_num_threads(1)
    model, optimizer = make()
    (train_elastic if mode == 'elastic' else train_plain)(model, optimizer, Log(model))


main()
