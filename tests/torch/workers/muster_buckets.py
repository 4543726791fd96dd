# SPDX-License-Identifier: Apache-2.0
"""DDP over the compiled backend: its buckets move to the library's memory, and stay usable after
the group is destroyed. Tensors that Python refers to stay where they are."""
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import muster.torch  # registers the backend


def mapping_of(tensor):
    """The name of the mapping that contains the tensor's memory."""
    address = tensor.data_ptr()
    with open("/proc/self/maps") as maps:
        for line in maps:
            fields = line.split()
            first, last = (int(each, 16) for each in fields[0].split("-"))
            if first <= address < last:
                return fields[5] if len(fields) > 5 else ""
    raise AssertionError("not mapped")


def main():
    dist.init_process_group("muster")
    x = torch.full((100_000,), dist.get_rank() + 1.)
    alias, where = x.numpy(), x.data_ptr()
    dist.all_reduce(x, async_op=True).wait()
    assert x.data_ptr() == where and (alias == 3).all()
    model = DistributedDataParallel(nn.Linear(300, 300), gradient_as_bucket_view=True)
    for _ in range(3):
        model.zero_grad()
        model(torch.full((1, 300), dist.get_rank() + 1.)).sum().backward()
        gradient = model.module.weight.grad
        assert (gradient == 1.5).all(), gradient
    assert "muster" in mapping_of(gradient), mapping_of(gradient)
    assert "muster" not in mapping_of(x), mapping_of(x)
    dist.destroy_process_group()
    gradient.zero_()
    assert (model.module.weight.grad == 0).all()
    print(f"rank {os.environ['RANK']}: the buckets are the library's\n", end="", flush=True)


if __name__ == "__main__":
    main()
