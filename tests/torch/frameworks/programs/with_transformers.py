# SPDX-License-Identifier: Apache-2.0
"""transformers' Trainer on a tiny model that is created from its configuration, without a network.
with_transformers.py FOLDER [BACKEND], as in with_accelerate.py, on which it is based."""
import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed


class Counting(torch.utils.data.Dataset):
    """Sequences that count upwards."""

    def __len__(self):
        return 32

    def __getitem__(self, index):
        ids = torch.arange(index, index + 12) % 50
        return {"input_ids": ids, "labels": ids}


def main(folder, backend=None):
    if backend:
        import muster.torch  # noqa: F401
        torch.distributed.init_process_group(backend)
    set_seed(1)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=16, n_embd=16, n_layer=1,
                                       n_head=2, bos_token_id=0, eos_token_id=0))
    arguments = TrainingArguments(folder, per_device_train_batch_size=4, max_steps=6,
                                  learning_rate=0.01, logging_steps=2, save_strategy="no",
                                  report_to=[], use_cpu=True, disable_tqdm=True)
    trainer = Trainer(model, arguments, train_dataset=Counting())
    trainer.train()
    losses = [each["loss"] for each in trainer.state.log_history if "loss" in each]
    weights = sum(p.detach().double().sum() for p in model.parameters()).item()
    # Workers of torchrun write the text of print and the line break separately, and so interleave
    # lines.
    print(f"rank {arguments.process_index} of {arguments.world_size} weights {weights!r}\n", end="")
    if trainer.is_world_process_zero():
        print(f"losses {losses}\n", end="")


if __name__ == "__main__":
    main(*sys.argv[1:])
