# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's engine with ZeRO on CPUs: with_deepspeed.py STAGE [BACKEND]."""
import sys

import deepspeed
import torch
from torch.nn.functional import mse_loss


def main(stage, backend="gloo"):
    if backend == "muster":
        import muster.torch  # noqa: F401  nothing is installed here that would find it
    torch.manual_seed(1)
    deepspeed.init_distributed(backend)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    config = {
        "train_micro_batch_size_per_gpu": 8, "bf16": {"enabled": True},
        "optimizer": {"type": "SGD", "params": {"lr": 0.05}},
        "zero_optimization": {"stage": int(stage)},
        "zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False}
    engine = deepspeed.initialize(model=model, model_parameters=model.parameters(),
                                  config=config)[0]
    inputs = torch.randn(64, 8)
    losses = []
    for first in range(8 * torch.distributed.get_rank(), 64, 16):
        x = inputs[first:first + 8]
        loss = mse_loss(engine(x.bfloat16()).float(), x.sum(1, keepdim=True))
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())
    print(f"rank {torch.distributed.get_rank()} losses {losses}\n", end="")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
