# SPDX-License-Identifier: Apache-2.0
"""A rank that trains with DistributedDataParallel over gloo and over "muster". It alternates
between them in one process, so that all variants see the same conditions in every round.

    muster --nproc-per-node=N torch_ddp.py ROUNDS MODEL...

MODEL: mlp, gpt, cnn (0.27, 5 and 11 million parameters), or calls (all_reduce of 1 KiB). For each
variant and round, rank 0 prints the variant's name, the model, and the median time of a step or
call on the slowest rank in microseconds. "none" trains the bare model. "alone" trains it with
DistributedDataParallel on one rank, which is the cost of DDP itself with any backend."""
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import muster.torch  # registers the backend

# Name: backend, its environment variables, DDP options.
VIEWS = {"gradient_as_bucket_view": True}
PYTHON = {"MUSTER_TORCH_BACKEND": "python"}
COMPILED = {"MUSTER_TORCH_BACKEND": "compiled"}
WAYS = {"gloo": ("gloo", {}, {}), "gloo, bucket views": ("gloo", {}, VIEWS),
        "python": ("muster", PYTHON, {}), "compiled": ("muster", COMPILED, {}),
        "compiled, bucket views": ("muster", COMPILED, VIEWS),
        "compiled, in a thread": ("muster", {**COMPILED, "MUSTER_TORCH_ASYNC": "thread"}, {}),
        "alone": ("muster", COMPILED, {}), "none": (None, {}, {})}
WITHOUT_OTHERS = ("alone", "none")
CALLS = [name for name, (_, _, options) in WAYS.items()
         if name not in WITHOUT_OTHERS and not options]
STEPS = {"mlp": 40, "gpt": 4, "cnn": 4}  # per round
HOT_CALLS = {"gloo": 20}  # per round; 500 for the other variants
WARM_UP = 4  # steps; DDP rebuilds its buckets after the first one


class Attention(nn.Module):
    """A transformer block."""

    def __init__(self, width, heads):
        super().__init__()
        self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
        self.heads = heads
        self.queries, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.inner = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                                   nn.Linear(4 * width, width))

    def forward(self, x):
        parts = [part.unflatten(2, (self.heads, -1)).transpose(1, 2)
                 for part in self.queries(self.one(x)).chunk(3, 2)]
        mixed = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.inner(self.two(x))


class Residual(nn.Module):
    """A basic ResNet block."""

    def __init__(self, before, after, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU(),
            nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after))
        self.around = nn.Identity() if before == after else nn.Sequential(
            nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x):
        return torch.relu(self.body(x) + self.around(x))


def mlp():
    return nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(),
                         nn.Linear(256, 10)), torch.randn(32, 784)


def gpt():
    return nn.Sequential(nn.Embedding(96, 256), *[Attention(256, 4) for _ in range(6)],
                         nn.Linear(256, 96)), torch.randint(0, 96, (1, 64))


def cnn():
    sizes = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1),
             (256, 512, 2), (512, 512, 1)]
    return nn.Sequential(nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
                         *[Residual(*each) for each in sizes], nn.AdaptiveAvgPool2d(1),
                         nn.Flatten(), nn.Linear(512, 10)), torch.randn(2, 3, 32, 32)


class Training:
    """One model with one variant."""

    def __init__(self, make, group, options):
        torch.manual_seed(5)
        bare, self.data = make()
        self.model = bare if group is None else DistributedDataParallel(
            bare, process_group=group, **options)
        self.optimizer = torch.optim.SGD(bare.parameters(), lr=1e-4)
        self.parameters = list(bare.parameters())

    def step(self):
        self.optimizer.zero_grad()
        self.model(self.data).square().mean().backward()
        self.optimizer.step()


def microseconds(call, times):
    """The median time of a call on the slowest rank."""
    spent = []
    for _ in range(times):
        begin = time.perf_counter()
        call()
        spent.append(1e6 * (time.perf_counter() - begin))
    slowest = torch.tensor([statistics.median(spent)])
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return slowest.item()


def say(name, what, time_us):
    if dist.get_rank() == 0:
        print(f"{name}; {what}; {time_us:.2f}", flush=True)


def make_group(name):
    backend, variables, _ = WAYS[name]
    os.environ.update(variables)
    if name == "alone":
        group = dist.new_subgroups(group_size=1, backend=backend)[0]
    else:
        group = None if backend is None else dist.new_group(backend=backend)
    for variable in variables:
        del os.environ[variable]
    return group


def train(model, groups, rounds):
    runs = {name: Training({"mlp": mlp, "gpt": gpt, "cnn": cnn}[model], groups[name], WAYS[name][2])
            for name in WAYS}
    for each in runs.values():
        for _ in range(WARM_UP):
            each.step()
    for _ in range(rounds):
        for name, each in runs.items():
            dist.barrier()
            say(name, model, microseconds(each.step, STEPS[model]))
    gloo = runs["gloo"].parameters
    for name, each in runs.items():  # with two ranks, sums do not depend on the order
        if name not in WITHOUT_OTHERS and dist.get_world_size() == 2 and not all(
                torch.equal(one, other) for one, other in zip(gloo, each.parameters)):
            raise SystemExit(f"{model}: the parameters with {name} differ from gloo's")


def calls(groups, rounds):
    data = torch.zeros(256)
    for _ in range(rounds):
        for name in CALLS:
            group, times = groups[name], HOT_CALLS.get(name, 500)
            for word, is_async in (("sync", False), ("async", True)):
                def call():
                    work = dist.all_reduce(data, group=group, async_op=is_async)
                    if is_async:
                        work.wait()
                dist.barrier()
                microseconds(call, times // 10)
                say(name, word, microseconds(call, times))


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    groups = {name: make_group(name) for name in WAYS}
    rounds = int(sys.argv[1])
    for word in sys.argv[2:]:
        if word == "calls":
            calls(groups, rounds)
        else:
            train(word, groups, rounds)
    dist.barrier()
    os._exit(0)  # exit without waiting for gloo's threads


if __name__ == "__main__":
    main()
