# SPDX-License-Identifier: Apache-2.0
"""DDP with muster.elastic: BatchNorm, Adam and a scheduler. PLAN: "RANK:EPOCH:PLACE …", where the
process that this rank has in this epoch kills itself. Saves the model and this rank's random
numbers in FOLDER. With GROUPS, ranks 0 and 1 are also a group of their own."""
import os
import signal

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from muster import elastic

STEPS, SAMPLES = 12, 48
BORN, RANK = os.environ["MUSTER_EPOCH"], int(os.environ["RANK"])
FOLDER = os.environ["FOLDER"]


def is_planned(place):
    return f"{RANK}:{BORN}:{place}" in os.environ["PLAN"].split()


def die_if_planned(place):
    if is_planned(place):
        os.kill(os.getpid(), signal.SIGKILL)


class Dying(elastic.TorchState):
    def sync(self):
        die_if_planned("sync")
        super().sync()


def make_state():
    torch.manual_seed(17 + RANK)  # rank 0's model counts
    # No bias before BatchNorm: its gradient is only rounding errors, which Adam would amplify.
    model = nn.Sequential(nn.Linear(16, 64, bias=False), nn.BatchNorm1d(64), nn.ReLU(),
                          nn.Linear(64, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5, 0.5)
    return Dying(model=model, optimizer=optimizer, scheduler=scheduler, step=0,
                 total=torch.zeros(2, dtype=torch.float64))


numbers = {}  # by step
pairs = []  # the group of ranks 0 and 1, if this rank is in it


@elastic.run(backend=os.environ["BACKEND"])
def train(state):
    wait_outside_of_operations()
    if "GROUPS" in os.environ:
        group = dist.new_group([0, 1])
        pairs[:] = [group] if RANK < 2 else []
    ddp = DistributedDataParallel(state.model)
    generator = torch.Generator().manual_seed(1)
    data = torch.randn(SAMPLES, 16, generator=generator)
    wanted = torch.randint(0, 4, (SAMPLES,), generator=generator)
    sampler = elastic.Sampler(SAMPLES, 4, state)
    try:
        while state.step < STEPS:
            for indices in sampler:
                take_step(state, ddp, data[indices], wanted[indices])
    except Exception:
        die_if_planned(f"step-{state.step}")  # the loss of another rank was noticed first
        raise


def take_step(state, ddp, data, wanted):
    numbers[state.step] = float(torch.rand(1))
    loss = nn.functional.cross_entropy(ddp(data), wanted)
    die_if_planned(f"step-{state.step}")
    for pair in pairs:
        ones = torch.ones(1)
        dist.all_reduce(ones, group=pair)
        assert ones.item() == 2
    loss.backward()
    state.optimizer.step()
    state.optimizer.zero_grad()
    state.scheduler.step()
    state.total += 1
    state.step += 1
    state.commit()


def wait_outside_of_operations():
    """Rank 0 waits for rank 2, which is in no operation, so that no connection of rank 0 breaks
    when rank 1 dies."""
    if "outside" in os.environ["PLAN"] and dist.is_initialized() and BORN == "1" and not numbers:
        die_if_planned("outside")
        fifo = os.path.join(FOLDER, "fifo")
        try:
            if RANK == 0:
                dist.recv(torch.zeros(1), 2)
            elif RANK == 2:
                open(fifo, "rb").read()
                raise ConnectionError("for the test")
        finally:
            numbers[-1] = 0.0
            if RANK == 0:
                open(fifo, "wb").close()


def main():
    torch.set_num_threads(1)
    state = make_state()
    train(state)
    assert state.total.tolist() == [STEPS, STEPS] and not dist.is_initialized()
    torch.save({"model": state.model.state_dict(), "numbers": numbers,
                "lr": state.optimizer.param_groups[0]["lr"]},
               os.path.join(FOLDER, f"{RANK}.pt"))


if __name__ == "__main__":
    main()
