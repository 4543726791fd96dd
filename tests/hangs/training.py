# SPDX-License-Identifier: Apache-2.0
"""A long training run with everything that slows down real ones: training.py SOURCE MINUTES SEED.
SOURCE is what the launcher can see: "operations" of muster's collective library, or "steps" that it
reports while it sums over gloo. Before the first step rank 0 compiles for minutes; occasionally a
step takes seconds; rank 0 writes checkpoints while the others wait; evaluations read data, or only
compute. All ranks draw the same random numbers, so that each knows what the others do."""
import os
import random
import sys
import time

COMPILE_S = 120.0
STEP_S = 0.01
SLOW_STEP_S = (1.0, 8.0)
CHECKPOINT_EVERY_S, CHECKPOINT_MIB = 60.0, 300
EVALUATE_EVERY_S, EVALUATE_S = 300.0, (20.0, 45.0)


class Operations:
    def __init__(self):
        import muster
        self.comm = muster.Communicator.from_env(init_timeout=1800)
        self.rank = self.comm.rank
        self.gradients = memoryview(bytearray(4 << 16)).cast("f")

    def barrier(self):
        self.comm.barrier()

    def step(self, _):
        self.comm.all_reduce(self.gradients)


class Steps:
    def __init__(self):
        import muster.worker
        import torch
        import torch.distributed
        torch.distributed.init_process_group("gloo")
        self.dist, self.worker = torch.distributed, muster.worker
        self.rank = self.dist.get_rank()
        self.gradients = torch.zeros(1 << 16)

    def barrier(self):
        self.dist.barrier()

    def step(self, number):
        self.dist.all_reduce(self.gradients)
        self.worker.progress(number)


def compute(seconds):
    """Uses the CPU for part of the time, like a rank whose work is on a GPU."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        busy = time.monotonic() + 0.03
        while time.monotonic() < busy:
            pass
        time.sleep(0.07)


def save():
    with open(os.path.join(os.environ["SCRATCH"], "checkpoint"), "wb") as file:
        for _ in range(CHECKPOINT_MIB):
            file.write(bytes(1 << 20))
            time.sleep(0.04)
        os.fsync(file.fileno())


def evaluate(seconds, reads):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if reads:
            with open("/dev/zero", "rb", buffering=0) as file:
                file.read(1 << 20)
        compute(0.5)


def train(job, minutes, draw):
    counts = {"steps": 0, "slow steps": 0, "checkpoints": 0, "evaluations": 0}
    begun = time.monotonic()
    agreed = 0.0  # all ranks follow the random numbers, not their clocks
    while agreed < minutes * 60:
        slow = draw.random() < 0.002
        spent = draw.uniform(*SLOW_STEP_S) if slow else STEP_S * draw.lognormvariate(0, 0.5)
        time.sleep(spent)
        job.step(counts["steps"])
        counts["steps"] += 1
        counts["slow steps"] += slow
        agreed += spent
        if agreed - counts["checkpoints"] * CHECKPOINT_EVERY_S > CHECKPOINT_EVERY_S:
            counts["checkpoints"] += 1
            if job.rank == 0:
                save()
            job.barrier()
        if agreed - counts["evaluations"] * EVALUATE_EVERY_S > EVALUATE_EVERY_S:
            counts["evaluations"] += 1
            seconds, reads = draw.uniform(*EVALUATE_S), draw.random() < 0.5
            # On all ranks, or on one for which the others wait.
            if draw.random() < 0.5 or job.rank == 0:
                evaluate(seconds, reads)
            job.barrier()
    return counts, time.monotonic() - begun


def main():
    source, minutes, seed = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    if os.environ["RANK"] == "0":
        compute(COMPILE_S * min(1.0, minutes / 10))
    job = {"operations": Operations, "steps": Steps}[source]()
    counts, seconds = train(job, minutes, random.Random(seed))
    if job.rank == 0:
        print(", ".join(f"{count} {what}" for what, count in counts.items()),
              f"in {seconds / 60:.1f} minutes", flush=True)


if __name__ == "__main__":
    main()
