# SPDX-License-Identifier: Apache-2.0
"""Groups with one backend for the CPU and another one for GPUs, which need not exist."""
import torch
import torch.distributed as dist

import muster.torch  # registers the backend


def main():
    dist.init_process_group("cpu:muster,cuda:gloo")
    for group in (dist.group.WORLD, dist.new_group(backend="cuda:gloo,cpu:muster")):
        names = [group._get_backend(torch.device(device)).name() for device in ("cpu", "cuda")]
        x = torch.ones(3)
        dist.all_reduce(x, group=group)
        assert (x == 2).all(), x
        dist.barrier(group=group)
        print(f"cpu {names[0]}, cuda {names[1]}\n", end="", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
