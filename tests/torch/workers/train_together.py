# SPDX-License-Identifier: Apache-2.0
"""Gradient descent over all workers on all nodes (gloo), with a checkpoint every few steps. The
gradient covers all data, whatever the number of workers, so that the losses equal those of an
undisturbed training run. Writes to $NODE_DIR: events (like muster-node-worker) and, on rank 0,
steps: {"from": step}, {"step", "loss", "world"} and {"saved": step}."""
import json
import os
import sys
import time

import torch
import torch.distributed as dist

SAVE_EACH = 5
PACE = 0.01  # s per step, so that something can happen between steps


def data():
    random = torch.Generator().manual_seed(7)
    inputs = torch.randn(240, 8, generator=random, dtype=torch.float64)
    truth = torch.randn(8, 1, generator=random, dtype=torch.float64)
    return inputs, inputs @ truth + 0.1


class Model:
    """Linear; plain numbers, so that only the sums differ between world sizes."""

    def __init__(self):
        self.weights = torch.zeros(8, 1, dtype=torch.float64)
        self.step = 0

    def gradient(self, inputs, wanted):
        """Sums over these rows: the gradient, the squared error."""
        error = inputs @ self.weights - wanted
        return torch.cat([(2 * inputs.t() @ error).flatten(), (error ** 2).sum().reshape(1)])

    def descend(self, sums, rows):
        self.weights -= 0.01 * sums[:8].reshape(8, 1) / rows
        self.step += 1
        return float(sums[8] / rows)


def reference(steps):
    """The losses of an undisturbed training run."""
    model, (inputs, wanted) = Model(), data()
    return [model.descend(model.gradient(inputs, wanted), len(inputs)) for _ in range(steps)]


def tell(name, **what):
    with open(os.path.join(os.environ["NODE_DIR"], name), "ab", buffering=0) as file:
        file.write(b"\n" + json.dumps(what).encode() + b"\n")


def event(what, **more):
    store = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    tell("events", what=what, at=time.monotonic_ns(), pid=os.getpid(),
         node=os.environ["NODE_LABEL"], round=store, **more)


def load(path, model):
    if os.path.exists(path):
        state = torch.load(path)
        model.weights, model.step = state["weights"], state["step"]


def save(path, model):
    torch.save({"weights": model.weights, "step": model.step}, path + ".new")
    os.replace(path + ".new", path)
    tell("steps", saved=model.step)


def train(checkpoint):
    rank, world = dist.get_rank(), dist.get_world_size()
    model, (inputs, wanted) = Model(), data()
    load(checkpoint, model)
    if rank == 0:
        tell("steps", **{"from": model.step + 1}, world=world)
    mine, expected = inputs[rank::world], wanted[rank::world]
    finish = os.path.join(os.environ["NODE_DIR"], "do", "all")
    while True:
        stop = float(rank == 0 and os.path.exists(finish))
        sums = torch.cat([model.gradient(mine, expected),
                          torch.tensor([stop], dtype=torch.float64)])
        dist.all_reduce(sums)
        if sums[9] > 0:
            return
        loss = model.descend(sums, len(inputs))
        if rank == 0:
            tell("steps", step=model.step, loss=loss, world=world)
            if model.step % SAVE_EACH == 0:
                save(checkpoint, model)
        time.sleep(PACE)


def main():
    event("start", env=dict(os.environ))
    dist.init_process_group("gloo")
    event("up")
    train(sys.argv[1])
    dist.barrier()
    dist.destroy_process_group()  # joins gloo's threads, which may abort the exit


if __name__ == "__main__":
    main()
