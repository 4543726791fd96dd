# SPDX-License-Identifier: Apache-2.0
"""DDP with muster.elastic: dropout, BatchNorm, a random order, and noise from Python and NumPy.
Ends at the step in the file "last" in FOLDER. Writes each step there, and at the end this rank's
weights, buffers and next random numbers. PLAN: what rank 1 does in step 7 of its first life."""
import os
import random
import signal
import sys

import numpy as np
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from muster import elastic

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../support"))
from cases import eventually  # noqa: E402

SAMPLES, BATCH = 120, 4
RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
FOLDER, BACKEND, PLAN = (os.environ[name] for name in ("FOLDER", "BACKEND", "PLAN"))
IS_PLANNED = RANK == 1 and os.environ["MUSTER_EPOCH"] == "1"


def path(name):
    return os.path.join(FOLDER, name)


def has_next(state):
    try:
        with open(path("last")) as file:
            return state.step < int(file.read())
    except FileNotFoundError:
        return True


def note(step):
    with open(path("new." + str(RANK)), "w") as file:
        file.write(f"{step} {os.getpid()}")
    os.rename(file.name, path(f"{RANK}.step"))


def step_of(rank):
    with open(path(f"{rank}.step")) as file:
        return int(file.read().split()[0])


def act(state):
    if IS_PLANNED and state.step == 7 and PLAN == "late":
        # All gradients have been sent, so the others commit this step, and the next step needs us.
        eventually(lambda: all(step_of(rank) == 8 for rank in range(RANKS) if rank != RANK),
                   "the others commit the step")
        os.kill(os.getpid(), signal.SIGKILL)
    if IS_PLANNED and state.step == 7 and PLAN == "damaged":
        memory = state._news.record._memory
        for at in range(0, len(memory), len(memory) // 4):
            memory[at + 100] ^= 1
        os.kill(os.getpid(), signal.SIGKILL)


def train_step(ddp, state, x, wanted):
    x = x + 0.1 * random.random() + 0.1 * np.random.rand()
    state.optimizer.zero_grad()
    nn.functional.cross_entropy(ddp(x), wanted).backward()
    state.optimizer.step()
    act(state)
    state.step += 1
    try:
        state.commit()
    finally:
        note(state.step)


@elastic.run(backend=BACKEND)
def train(state):
    # gloo's sums depend on the buckets, which DDP otherwise changes after its first step.
    ddp = DistributedDataParallel(state.model, find_unused_parameters=BACKEND == "gloo")
    generator = torch.Generator().manual_seed(1)
    data = TensorDataset(torch.randn(SAMPLES, 16, generator=generator),
                         torch.randint(0, 4, (SAMPLES,), generator=generator))
    loader = DataLoader(data, batch_sampler=elastic.Sampler(SAMPLES, BATCH, state),
                        generator=torch.Generator())
    while has_next(state):
        for x, wanted in loader:
            if not has_next(state):
                break
            train_step(ddp, state, x, wanted)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(17 + RANK)
    random.seed(RANK)
    np.random.seed(RANK)
    # No bias before BatchNorm: its gradient is only rounding errors, which Adam would amplify.
    model = nn.Sequential(nn.Linear(16, 64, bias=False), nn.BatchNorm1d(64), nn.ReLU(),
                          nn.Dropout(0.3), nn.Linear(64, 4))
    model.register_buffer("ballast", torch.zeros(int(os.environ.get("BALLAST", "0"))))
    state = elastic.TorchState(model=model, optimizer=torch.optim.Adam(model.parameters(), lr=0.01),
                               step=0)
    train(state)
    torch.save({"model": model.state_dict(),
                "numbers": (random.random(), np.random.rand(), float(torch.rand(1)))},
               path(f"{RANK}.pt"))


if __name__ == "__main__":
    main()
