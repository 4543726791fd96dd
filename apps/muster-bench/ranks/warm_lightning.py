# SPDX-License-Identifier: Apache-2.0
"""A worker that takes a step with Lightning's Trainer, strategy "ddp" (crashing.py)."""
import logging
import warnings

import crashing
import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset

logging.getLogger('lightning.pytorch').setLevel(logging.ERROR)
warnings.filterwarnings('ignore')


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def training_step(self, batch, _):
        return self.layer(batch[0]).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


lightning.Trainer(accelerator='cpu', strategy='ddp', devices=crashing.world, max_steps=1,
                  logger=False, enable_checkpointing=False, enable_progress_bar=False,
                  enable_model_summary=False).fit(
                      Model(), DataLoader(TensorDataset(torch.ones(64, 8)), batch_size=1))
crashing.run()
