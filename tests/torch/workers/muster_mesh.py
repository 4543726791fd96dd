# SPDX-License-Identifier: Apache-2.0
"""Features that PyTorch 2 builds on process groups, over the backend "muster": functional
collectives, DTensor, FSDP2."""
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard, distribute_tensor

import muster.torch  # registers the backend


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))


def main():
    dist.init_process_group("muster")
    size = dist.get_world_size()
    mesh = init_device_mesh("cpu", (size,))
    summed = functional.all_reduce(torch.ones(4), "sum", mesh)
    assert torch.equal(summed + 0, torch.full((4,), float(size)))
    whole = torch.arange(8. * size).reshape(4 * size, 2)
    assert torch.equal(distribute_tensor(whole, mesh, [Shard(0)]).full_tensor(), whole)
    plain, sharded = model(), fully_shard(model(), mesh=mesh)
    plain(torch.ones(2, 8)).sum().backward()
    sharded(torch.ones(2, 8)).sum().backward()
    for one, other in zip(plain.parameters(), sharded.parameters()):
        torch.testing.assert_close(other.grad.full_tensor(), one.grad)
    print(f"rank {dist.get_rank()} of {size} is done\n", end="", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
