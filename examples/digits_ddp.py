# SPDX-License-Identifier: Apache-2.0
"""Several processes together learn handwritten digits (PyTorch DDP on CPUs).

    muster --nproc-per-node=2 examples/digits_ddp.py

This script does not depend on muster: the launcher sets RANK, WORLD_SIZE, MASTER_ADDR and
MASTER_PORT, and init_process_group() reads them. Runs with PyTorch 1.13 to 2.15.
--backend=muster sums the gradients with muster's own library instead of gloo.
"""
import argparse
import gzip
import os
import signal
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset, random_split
from torch.utils.data.distributed import DistributedSampler

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "digits.csv.gz")


def load_digits():
    """1,797 images of 8x8 pixels (0..16); each row ends with the digit that the image shows."""
    with gzip.open(DATA, "rt") as lines:
        rows = torch.tensor([[int(cell) for cell in line.split(",")] for line in lines])
    pictures = rows[:, :-1].float().div(16).view(-1, 1, 8, 8)
    everything = TensorDataset(pictures, rows[:, -1])
    tests = len(everything) // 5
    split = torch.Generator().manual_seed(0)  # the same split on each worker
    return random_split(everything, [len(everything) - tests, tests], generator=split)


def make_model():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 4 * 4, 64), nn.ReLU(), nn.Linear(64, 10),
    )


class Totals:
    """Sums numbers over all workers, in one tensor that lives as long as the process group."""

    def __init__(self):
        self.tensor = torch.zeros(2, dtype=torch.float64)

    def of_all(self, first, second):
        self.tensor.copy_(torch.tensor([first, second], dtype=torch.float64))
        dist.all_reduce(self.tensor)
        return self.tensor.tolist()


def train_one_epoch(model, batches, optimizer, totals):
    """One pass over this worker's share; returns the mean loss over all workers."""
    model.train()
    loss_of = nn.CrossEntropyLoss()
    loss_sum, seen = 0.0, 0
    for pictures, digits in batches:
        optimizer.zero_grad()
        loss = loss_of(model(pictures), digits)
        loss.backward()  # DDP averages the gradients over the workers here
        optimizer.step()
        loss_sum += loss.item() * len(digits)
        seen += len(digits)
    loss_sum, seen = totals.of_all(loss_sum, seen)
    return loss_sum / seen


def test_accuracy(model, tests, totals):
    """Each worker takes every world-size-th image of the test set."""
    model.eval()
    mine = range(dist.get_rank(), len(tests), dist.get_world_size())
    pictures = torch.stack([tests[i][0] for i in mine])
    digits = torch.stack([tests[i][1] for i in mine])
    with torch.no_grad():
        right = (model.module(pictures).argmax(1) == digits).sum().item()
    right, seen = totals.of_all(right, len(digits))
    return right / seen


def save(path, epoch, model, optimizer):
    """Writes to a temporary file and renames it, so that a crash leaves the old or the new file."""
    state = {"epoch": epoch, "model": model.module.state_dict(),
             "optimizer": optimizer.state_dict()}
    torch.save(state, path + ".new")
    os.replace(path + ".new", path)


def resume(path, model, optimizer):
    """Continues after the last saved epoch; returns the next epoch."""
    if not path or not os.path.exists(path):
        return 1
    state = torch.load(path, map_location="cpu")
    model.module.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["epoch"] + 1


def crash_on_purpose(epoch, options):
    """The last worker kills itself once, to show that a restart resumes the training."""
    first_attempt = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) == 0
    if epoch != options.crash_in_epoch or not first_attempt:
        return
    dist.barrier()  # rank 0 has saved the previous epoch
    if dist.get_rank() == dist.get_world_size() - 1:
        os.kill(os.getpid(), signal.SIGKILL)


def train(options, totals):
    rank, world_size = dist.get_rank(), dist.get_world_size()
    training, tests = load_digits()
    model = DistributedDataParallel(make_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    first = resume(options.checkpoint, model, optimizer)
    if rank == 0:
        print(f"PyTorch {torch.__version__}, {world_size} workers, {len(training)} training "
              f"images, {len(tests)} test images; first epoch: {first}", flush=True)
    sampler = DistributedSampler(training)
    batches = DataLoader(training, batch_size=options.batch_size, sampler=sampler)
    for epoch in range(first, options.epochs + 1):
        crash_on_purpose(epoch, options)
        started = time.monotonic()
        sampler.set_epoch(epoch)
        loss = train_one_epoch(model, batches, optimizer, totals)
        accuracy = test_accuracy(model, tests, totals)
        if rank == 0:
            took = time.monotonic() - started
            print(f"epoch {epoch:2}: loss {loss:.4f}, test accuracy {accuracy:.1%}, {took:.2f} s",
                  flush=True)
            if options.checkpoint:
                save(options.checkpoint, epoch, model, optimizer)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=32, help="per worker")
    parser.add_argument("--checkpoint", help="file to save after each epoch and to resume from")
    parser.add_argument("--crash-in-epoch", type=int, default=0,
                        help="the last worker kills itself in this epoch of the first attempt")
    parser.add_argument("--backend", default=os.environ.get("DIGITS_BACKEND", "gloo"),
                        help="torch.distributed backend: gloo, or muster (faster; lib/python)")
    options = parser.parse_args()
    torch.manual_seed(1)
    if options.backend == "muster":
        import muster.torch  # registers the backend  # noqa: F401
    dist.init_process_group(options.backend)
    totals = Totals()
    train(options, totals)
    dist.barrier()
    dist.destroy_process_group()
    # DDP keeps gloo's threads alive after the group (PyTorch 2.15). A thread that is still busy
    # when Python shuts down aborts the worker (PyTorch's pull request 179291), so skip the
    # shutdown.
    os._exit(0)


if __name__ == "__main__":
    main()
