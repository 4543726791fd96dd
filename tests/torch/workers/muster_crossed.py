# SPDX-License-Identifier: Apache-2.0
"""Rank 0 starts a sum, then sends what rank 1 receives before it joins the sum. A backend that
performed the sum only inside the call would wait forever."""
import torch
import torch.distributed as dist

import muster.torch  # registers the backend


def main():
    dist.init_process_group("muster")
    for count in (3, 300_000):
        for _ in range(5):
            x, message = torch.ones(count), torch.full((4,), float(dist.get_rank()))
            if dist.get_rank() == 0:
                work = dist.all_reduce(x, async_op=True)
                dist.send(message, 1)
            else:
                dist.recv(message, 0)
                work = dist.all_reduce(x, async_op=True)
            work.wait()
            assert (x == 2).all() and (message == 0).all()
    print("all are over\n", end="", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
