# SPDX-License-Identifier: Apache-2.0
"""A worker that takes a step with transformers' Trainer (crashing.py)."""
import crashing
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Counting(torch.utils.data.Dataset):
    """Sequences that count upwards."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        ids = torch.arange(index, index + 12) % 50
        return {'input_ids': ids, 'labels': ids}


model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=16, n_embd=16, n_layer=1, n_head=2,
                                   bos_token_id=0, eos_token_id=0))
arguments = TrainingArguments(str(crashing.folder / 'trainer'), per_device_train_batch_size=1,
                              max_steps=1, save_strategy='no', logging_strategy='no', report_to=[],
                              use_cpu=True, disable_tqdm=True)
Trainer(model, arguments, train_dataset=Counting()).train()
crashing.run()
