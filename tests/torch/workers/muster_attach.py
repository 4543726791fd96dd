# SPDX-License-Identifier: Apache-2.0
"""muster.torch.attach gives the same gradients as DDP over gloo, within rounding: many small
buckets, parameters used by some ranks or none, accumulation. Word: selects one of the functions
below."""
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import muster
import muster.torch


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(50, 16)
        self.body = nn.Sequential(nn.Linear(16, 64), nn.LayerNorm(64), nn.ReLU(),
                                  nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
        self.second_head = nn.Linear(64, 4)  # used by some ranks in some steps
        self.never = nn.Linear(3, 3)
        self.scale = nn.Parameter(torch.tensor(1.0))

    def forward(self, words, use_second):
        x = self.scale * self.body[:-1](self.words(words))
        return self.second_head(x) if use_second else self.body[-1](x)


def batches(rank):
    generator = torch.Generator().manual_seed(rank)
    for step in range(6):
        yield (step, torch.randint(0, 50, (8,), generator=generator),
               torch.randn(8, 4, generator=generator))


def train(rank, model, forward, accumulating, wait):
    """The gradients after each step, then the model."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    for step, words, wanted in batches(rank):
        if step == 2:
            with accumulating():
                (forward(words, True) - wanted).square().mean().backward()
        use_second = step % 3 == 1 and rank == 0
        (forward(words, use_second) - wanted).square().mean().backward()
        wait()
        seen.append([(name, p.grad.clone()) for name, p in model.named_parameters()
                     if p.grad is not None])
        optimizer.step()
        optimizer.zero_grad()
    seen.append([(name, value.clone()) for name, value in model.state_dict().items()])
    return seen


def gradients(comm):
    torch.manual_seed(3 + comm.rank)  # rank 0's model counts
    start = Model()
    plain, ours = Model(), Model()
    plain.load_state_dict(start.state_dict())
    ours.load_state_dict(start.state_dict())
    dist.init_process_group("gloo")
    ddp = DistributedDataParallel(plain, bucket_cap_mb=0.004, find_unused_parameters=True)
    reference = train(comm.rank, plain, ddp, ddp.no_sync, lambda: None)
    attached = muster.torch.attach(ours, comm, has_unused=True, first_bucket=512, bucket_cap=4096)
    stats = []
    seen = train(comm.rank, ours, ours, attached.accumulate,
                 lambda: stats.append(attached.wait()))
    assert stats[0].buckets > 3 and stats[0].bytes > 10000, stats
    assert not any(each.moved for each in stats[1:]), stats
    for step, (one, other) in enumerate(zip(reference, seen)):
        assert [name for name, _ in one] == [name for name, _ in other], step
        for (name, left), (_, right) in zip(one, other):
            torch.testing.assert_close(right, left, rtol=1e-5, atol=1e-6,
                                       msg=lambda text: f"step {step}, {name}: {text}")
    for _, value in seen[-2] + seen[-1]:
        everybodys = comm.all_gather(value.contiguous())
        assert all(torch.equal(each, value) for each in everybodys)


def places(comm):
    """Gradients stay in buckets, whichever function zeroes them."""
    torch.manual_seed(comm.rank)
    model = nn.Sequential(nn.Linear(20, 30), nn.Conv1d(1, 2, 3), nn.Linear(28, 1))
    attached = muster.torch.attach(model, comm, wire="bf16")
    parameters = list(model.parameters())

    def are_places():
        return all(p.grad.data_ptr() == attached.sync.grad(id).data
                   for id, p in enumerate(parameters))

    def step():
        model(torch.ones(4, 1, 20) * (comm.rank + 1)).sum().backward()
        attached.wait()
        return [p.grad.clone() for p in parameters]
    assert are_places()
    first = step()
    assert are_places()
    for zero in (attached.zero_grad, lambda: model.zero_grad(set_to_none=True),
                 lambda: model.zero_grad(set_to_none=False)):
        zero()
        assert all(torch.equal(a, b) for a, b in zip(first, step()))
        assert are_places()
    attached.zero_grad()
    assert not any(p.grad.any() for p in parameters)
    mine = step()
    attached.close()
    attached.close()
    assert all(torch.equal(p.grad, grad) for p, grad in zip(parameters, mine))
    model(torch.ones(4, 1, 20)).sum().backward()  # from this rank alone now
    assert not any(torch.equal(p.grad, grad) for p, grad in zip(parameters, mine))


def sparse(comm):
    """Sparse gradients become dense, even if .grad was None."""
    words = nn.Embedding(5, 2, sparse=True)
    attached = muster.torch.attach(words, comm)
    for _ in range(2):
        words(torch.tensor([comm.rank])).sum().backward()
        attached.wait()
        wanted = torch.zeros(5, 2)
        wanted[:comm.size] = 1 / comm.size
        assert torch.equal(words.weight.grad, wanted), words.weight.grad
        words.zero_grad(set_to_none=True)


def refusal(kind, call):
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError("no error")


def mistakes(comm):
    model = nn.ModuleDict({"used": nn.Linear(2, 2), "idle": nn.Linear(2, 2)})
    attached = muster.torch.attach(model, comm)
    model["used"](torch.ones(2)).sum().backward()
    text = refusal(muster.InvalidState, attached.wait)
    assert "2 gradients were not marked in this step: 'idle.weight', 'idle.bias'" in text, text
    text = refusal(muster.InvalidState,
                   lambda: model["used"](torch.ones(2)).sum().backward())
    assert "was marked twice in a step" in text, text
    text = refusal(muster.InvalidState, lambda: attached.accumulate().__enter__())
    assert "call wait()" in text, text
    model["idle"](torch.ones(2)).sum().backward()
    attached.wait()
    different = nn.Linear(2 + comm.rank, 2)
    text = refusal(muster.Mismatch,
                   lambda: muster.torch.attach(different, comm, broadcast=False))
    assert "parameter 0 'weight'" in text, text
    strange = nn.ParameterDict({"c": nn.Parameter(torch.ones(1, dtype=torch.complex64))})
    text = refusal(muster.Unsupported, lambda: muster.torch.attach(strange, comm))
    assert "torch.complex64 ('c')" in text, text


def main():
    comm = muster.Communicator.from_env()
    {"gradients": gradients, "places": places, "sparse": sparse,
     "mistakes": mistakes}[sys.argv[1]](comm)
    comm.barrier()
    os.write(1, f"rank {comm.rank} of {comm.size}: {sys.argv[1]} as they should be\n".encode())
    os._exit(0)  # DDP's threads may abort a shutdown: see examples/digits_ddp.py


if __name__ == "__main__":
    main()
