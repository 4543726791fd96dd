# SPDX-License-Identifier: Apache-2.0
"""Training that survives the loss of a worker: only the lost process is replaced (PyTorch DDP).

    muster --restart=rank --max-restarts=3 --nproc-per-node=2 examples/digits_elastic.py

Kill any worker while it runs. The others keep their memory and send it to the replacement.
"""
import argparse
import gzip
import os

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from muster import elastic

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "digits.csv.gz")
FIRST = os.environ.get("MUSTER_EPOCH") == "1"  # this process is not a replacement


def load_digits():
    with gzip.open(DATA, "rt") as lines:
        rows = torch.tensor([[int(cell) for cell in line.split(",")] for line in lines])
    return rows[:, :-1].float() / 16, rows[:, -1]


def train(state, options):
    """Starts from the values of the state, which are those of the last commit."""
    images, digits = load_digits()
    model = DistributedDataParallel(state.model)  # new after each loss
    sampler = elastic.Sampler(len(digits), 32, state)
    while state.step < 12 * len(sampler):
        for batch in sampler:
            state.optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images[batch]), digits[batch])
            if state.step == options.crash_in_step and os.environ.get("RANK") == "1" and FIRST:
                os.kill(os.getpid(), 9)
            loss.backward()
            state.optimizer.step()
            state.step += 1
            state.commit()
    return (state.model(images).argmax(1) == digits).float().mean().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="gloo", help="of torch.distributed: gloo or muster")
    parser.add_argument("--crash-in-step", type=int, default=-1, help="rank 1 kills itself, once")
    options = parser.parse_args()
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    state = elastic.TorchState(model=model, optimizer=torch.optim.Adam(model.parameters()), step=0)
    accuracy = elastic.run(backend=options.backend)(train)(state, options)
    print(f"{state.step} steps, accuracy {accuracy:.1%}", flush=True)  # the same on each rank


if __name__ == "__main__":
    main()
