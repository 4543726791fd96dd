# SPDX-License-Identifier: Apache-2.0
"""transformers' Trainer as in docs/preemption.md. with_preemption.py FOLDER NOTICE: rank 0 creates
the file NOTICE in step 20, and without it, the training would not end."""
import sys

from muster import worker
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments
from with_transformers import Counting


class SaveBeforePreemption(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        worker.progress(state.global_step)
        if worker.preempted():
            control.should_save = control.should_training_stop = True

    def on_save(self, args, state, control, **kwargs):
        worker.saved(state.global_step)


class Notice(TrainerCallback):
    def __init__(self, path):
        self.path = path

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == 20 and state.is_world_process_zero:
            open(self.path, "w").close()


def main(folder, notice):
    model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=16, n_embd=16, n_layer=1,
                                       n_head=2, bos_token_id=0, eos_token_id=0))
    arguments = TrainingArguments(folder, per_device_train_batch_size=4, max_steps=1000000,
                                  save_strategy="no", report_to=[], use_cpu=True,
                                  disable_tqdm=True)
    trainer = Trainer(model, arguments, train_dataset=Counting(),
                      callbacks=[SaveBeforePreemption(), Notice(notice)])
    trainer.train()


if __name__ == "__main__":
    main(*sys.argv[1:])
