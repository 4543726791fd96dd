# SPDX-License-Identifier: Apache-2.0
"""A training loop for Accelerate in the style of its users, without any code for the launcher.
with_accelerate.py [BACKEND]: on CPUs Accelerate itself accepts only gloo, but uses an existing
group."""
import sys

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset


def main(backend=None):
    if backend:
        import muster.torch  # noqa: F401  nothing is installed here that would find it
        torch.distributed.init_process_group(backend)
    set_seed(1)
    accelerator = Accelerator(cpu=True)
    inputs = torch.randn(64, 8)
    data = DataLoader(TensorDataset(inputs, inputs.sum(1, keepdim=True)), batch_size=8)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    model, optimizer, data = accelerator.prepare(model, optimizer, data)
    for epoch in range(3):
        for x, y in data:
            loss = torch.nn.functional.mse_loss(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        mean = accelerator.reduce(loss.detach(), "mean").item()
        if accelerator.is_main_process:  # accelerator.print() prints once on each node
            print(f"epoch {epoch} loss {mean!r}")
    weights = accelerator.gather(sum(p.detach().sum() for p in model.parameters()).reshape(1))
    if accelerator.is_main_process:
        print(f"world {accelerator.num_processes} {accelerator.mixed_precision} "
              f"weights {weights.tolist()}")
    accelerator.end_training()


if __name__ == "__main__":
    main(*sys.argv[1:])
