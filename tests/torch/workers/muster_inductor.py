# SPDX-License-Identifier: Apache-2.0
"""Like muster_parity.py, for code that torch.compile generates with Inductor and a C++ compiler:
the modes of DDP, operations in compiled functions. Words: the cases; none for all."""
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import muster_parity
from muster_parity import gradients, me, size, steps


def deep_model():
    """With two buckets: the first one is never smaller than 1 MiB."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(40, 400), nn.ReLU(), nn.Linear(400, 400), nn.ReLU(),
                         nn.Linear(400, 400), nn.ReLU(), nn.Linear(400, 4))


def trained(group, mode, compile_it=torch.compile, **more):
    """Gradients of a compiled DDP in one of its modes."""
    torch._dynamo.reset()
    with torch._dynamo.config.patch(optimize_ddp=mode, **more):
        ddp = DistributedDataParallel(deep_model(), process_group=group, bucket_cap_mb=1)
        steps(compile_it(ddp))
    return gradients(ddp)


def ddp_optimizer(group):
    """DDPOptimizer splits the compiled graph at DDP's bucket boundaries."""
    seen = []

    def counted(graph, inputs):
        seen.append(graph)
        return torch._inductor.compile(graph, inputs)
    found = trained(group, "ddp_optimizer", lambda ddp: torch.compile(ddp, backend=counted))
    return [len(seen) > 1, *found]


def one_graph(group):
    return trained(group, "no_optimization")


def python_reducer(group):
    """The sums are part of the compiled backward pass."""
    return trained(group, "python_reducer", compiled_autograd=True)


def ddp_in_the_function(group):
    """Compiles the whole step, except for what Dynamo leaves to Python."""
    torch._dynamo.reset()
    ddp = DistributedDataParallel(deep_model(), process_group=group)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)

    @torch.compile
    def step(x):
        optimizer.zero_grad()
        loss = ddp(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss
    losses = [step(torch.full((8, 40), float(me() + n))) for n in range(3)]
    return [*losses, *ddp.parameters()]


def functional_collectives(group):
    torch._dynamo.reset()

    @torch.compile(fullgraph=True)
    def compute(x):
        total = functional.all_reduce(x * 2, "sum", group) + 1
        rows = functional.all_gather_tensor(x + 1, 0, group)
        part = functional.reduce_scatter_tensor(rows * 3, "avg", 0, group)
        swapped = functional.all_to_all_single(rows, None, None, group)
        sent = functional.broadcast(x * me(), 1, group)
        several = functional.all_reduce_coalesced([x, x + 1], "max", group)
        return total, rows, part, swapped, sent, *several
    return list(compute(torch.arange(12.).reshape(4, 3) + me()))


def ordinary_collectives(group):
    """As written for eager mode; Dynamo replaces them with functional ones."""
    torch._dynamo.reset()

    @torch.compile
    def compute(x):
        y = x * 2
        dist.all_reduce(y, group=group)
        rows = torch.empty(size() * 4, 3)
        dist.all_gather_into_tensor(rows, y + 1, group=group)
        part = torch.empty(4, 3)
        dist.reduce_scatter_tensor(part, rows, group=group)
        return y - 1, part * 2
    return list(compute(torch.arange(12.).reshape(4, 3) + me()))


CASES = [ddp_optimizer, one_graph, python_reducer, ddp_in_the_function, functional_collectives,
         ordinary_collectives]

if __name__ == "__main__":
    muster_parity.main({case.__name__: case for case in CASES})
