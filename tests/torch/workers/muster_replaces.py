# SPDX-License-Identifier: Apache-2.0
"""A program that asks for gloo and gets muster: it knows neither muster nor the variable. The words
of the test: "hook" has the import hook installed before PyTorch is imported."""
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
    # PyTorch's logger asks a group that it takes for gloo's for its threads.
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
    assert "gloo_num_threads" not in model._get_ddp_logging_data()
    del model
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
