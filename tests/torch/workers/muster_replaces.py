# SPDX-License-Identifier: Apache-2.0
"""A program that requests gloo and gets muster, knowing neither muster nor the variable. Words from
the test: "hook" means that the import hook is installed before PyTorch is imported."""
import os
import sys

if sys.argv[1:] == ["hook"]:
    from muster import torch_replaces
    torch_replaces.install()
    assert "torch" not in sys.modules

import torch
import torch.distributed as dist

if sys.argv[1:] != ["hook"]:
    import muster.torch


def main():
    dist.init_process_group("gloo")
    group = dist.new_group([0, 1])
    x = torch.ones(3)
    dist.all_reduce(x, group=group)
    dist.all_reduce(x)
    assert dist.get_backend() == dist.get_backend(group) == "gloo"
    names = [each._get_backend(torch.device("cpu")).name() for each in (dist.group.WORLD, group)]
    os.write(1, f"rank {dist.get_rank()}: {names} {x.sum().item():.0f}\n".encode())
    # PyTorch's logger queries the threads of a group that it mistakes for a gloo group.
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
    assert "gloo_num_threads" not in model._get_ddp_logging_data()
    del model
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
