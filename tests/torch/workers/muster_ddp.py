# SPDX-License-Identifier: Apache-2.0
"""DDP over the backend "muster" gives the same gradients as over gloo, within rounding, and the
same bits on each rank: many small buckets, unused parameters, accumulation, buffers, sparse
gradients, a communication hook, a DataLoader with worker processes."""
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

import muster.torch  # registers the backend


class Model(nn.Module):
    def __init__(self, sparse):
        super().__init__()
        self.words = nn.Embedding(50, 16, sparse=sparse)
        self.body = nn.Sequential(nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(),
                                  nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
        self.second_head = nn.Linear(64, 4)  # used by some steps only
        self.never = nn.Linear(3, 3)

    def forward(self, words, use_second):
        x = self.body[:-1](self.words(words))
        return self.second_head(x) if use_second else self.body[-1](x)


def batches():
    generator = torch.Generator().manual_seed(dist.get_rank())
    data = TensorDataset(torch.randint(0, 50, (48,), generator=generator),
                         torch.randn(48, 4, generator=generator))
    yield from DataLoader(data, batch_size=8, num_workers=1)  # a forked process reads


def train(group, sparse, hook):
    """Six steps; the gradients after each."""
    torch.manual_seed(3 + dist.get_rank())  # rank 0's model counts
    model = DistributedDataParallel(Model(sparse), process_group=group, bucket_cap_mb=0.004,
                                    find_unused_parameters=True)
    if hook is not None:
        model.register_comm_hook(group, hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    for step, (words, wanted) in enumerate(batches()):
        if step == 2:
            with model.no_sync():
                (model(words, False) - wanted).square().mean().backward()
        (model(words, step % 2 == 1) - wanted).square().mean().backward()
        seen.append([(name, value.grad.to_dense().clone())
                     for name, value in model.named_parameters() if value.grad is not None])
        optimizer.step()
        optimizer.zero_grad()
    seen.append([(name, value.clone()) for name, value in model.state_dict().items()])
    return seen


def compare(gloo, ours, tolerance):
    for step, (one, other) in enumerate(zip(gloo, ours)):
        assert [name for name, _ in one] == [name for name, _ in other], step
        for (name, left), (_, right) in zip(one, other):
            torch.testing.assert_close(right, left, rtol=tolerance, atol=tolerance,
                                       msg=lambda text: f"step {step}, {name}: {text}")


def same_on_all_ranks(gradients, group):
    for _, gradient in gradients[:10]:
        all_of_them = [torch.empty_like(gradient) for _ in range(dist.get_world_size())]
        dist.all_gather(all_of_them, gradient, group=group)
        for each in all_of_them:
            assert torch.equal(each, gradient)


def main():
    dist.init_process_group("muster")
    ours, gloo = dist.group.WORLD, dist.new_group(backend="gloo")
    for sparse, hook, tolerance in ((False, None, 1e-5), (True, None, 1e-5),
                                    (False, default_hooks.fp16_compress_hook, 2e-3)):
        reference, seen = train(gloo, sparse, hook), train(ours, sparse, hook)
        compare(reference, seen, tolerance)
        same_on_all_ranks(seen[-2], ours)
    print(f"rank {dist.get_rank()}: the gradients are those of gloo\n", end="", flush=True)
    dist.destroy_process_group()
    os._exit(0)  # DDP's threads may abort a shutdown: see examples/digits_ddp.py


if __name__ == "__main__":
    main()
