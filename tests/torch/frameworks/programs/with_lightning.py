# SPDX-License-Identifier: Apache-2.0
"""Lightning's Trainer with strategy "ddp": with_lightning.py MACHINES RANKS [BACKEND]. Its users
must specify the number of machines, and of ranks on each."""
import logging
import sys
import warnings

import lightning
import torch
from lightning.pytorch.strategies import DDPStrategy
from torch.utils.data import DataLoader, TensorDataset

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore")


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(),
                                          torch.nn.Linear(16, 1))
        self.losses = []

    def training_step(self, batch, _):
        x, y = batch
        loss = torch.nn.functional.mse_loss(self.layers(x), y)
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


def main(nodes, ranks, backend=None):
    if backend:
        import muster.torch  # noqa: F401
    lightning.seed_everything(1)
    inputs = torch.randn(64, 8)
    data = DataLoader(TensorDataset(inputs, inputs.sum(1, keepdim=True)), batch_size=8)
    model = Model()
    strategy = DDPStrategy(process_group_backend=backend) if backend else "ddp"
    trainer = lightning.Trainer(accelerator="cpu", strategy=strategy, devices=ranks,
                                num_nodes=nodes, max_epochs=2, logger=False,
                                enable_checkpointing=False, enable_progress_bar=False,
                                enable_model_summary=False)
    trainer.fit(model, data)
    weights = sum(p.detach().double().sum() for p in model.parameters()).item()
    # Workers of torchrun write the text of print and the line break separately, and so interleave
    # lines.
    print(f"rank {trainer.global_rank} of {trainer.world_size} weights {weights!r} "
          f"losses {model.losses}\n", end="")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]), *sys.argv[3:])
