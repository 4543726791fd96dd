# SPDX-License-Identifier: Apache-2.0
"""Several processes together learn handwritten digits, using only NumPy and muster's all-reduce.

    muster --nproc-per-node=2 examples/digits_numpy.py

Every worker computes the gradients of its share of each batch into library memory. The library sums
them in place, without a copy and with the same bits on every worker.
"""
import argparse
import gzip
import hashlib
import os
import time

import numpy as np

import muster

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "digits.csv.gz")
SHAPES = ((64, 128), (128,), (128, 10), (10,))  # weights and biases of two layers


def load_digits():
    """1,797 images of 8x8 pixels (0..16); each row ends with the digit that the image shows. The
    same order on each worker. Returns (images, digits) for training and for testing."""
    with gzip.open(DATA, "rt") as lines:
        rows = np.loadtxt(lines, delimiter=",", dtype=np.int64)
    rows = rows[np.random.default_rng(0).permutation(len(rows))]
    pictures, digits = (rows[:, :-1] / 16).astype(np.float32), rows[:, -1]
    tests = len(rows) // 5
    return (pictures[tests:], digits[tests:]), (pictures[:tests], digits[:tests])


def views(flat):
    """The arrays of SHAPES in one flat array."""
    sizes = [int(np.prod(shape)) for shape in SHAPES]
    parts = np.split(flat, np.cumsum(sizes)[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, SHAPES)]


def first_parameters(flat):
    """Initial parameters; the same on each worker, because the seed is the same."""
    generator = np.random.default_rng(1)
    for part in views(flat):
        if part.ndim == 2:
            part[:] = generator.normal(0, np.sqrt(2 / part.shape[0]), part.shape)


def outputs(parameters, pictures):
    """Returns (hidden layer, probabilities of the digits)."""
    weights, biases, last_weights, last_biases = parameters
    hidden = np.maximum(pictures @ weights + biases, 0)
    scores = hidden @ last_weights + last_biases
    scores = np.exp(scores - scores.max(1, keepdims=True))
    return hidden, scores / scores.sum(1, keepdims=True)


def gradients_of(parameters, pictures, digits, into):
    """Computes the gradients of the summed loss; returns that loss."""
    hidden, probabilities = outputs(parameters, pictures)
    rows = np.arange(len(digits))
    loss = -np.log(probabilities[rows, digits] + 1e-9).sum()
    probabilities[rows, digits] -= 1
    back = (probabilities @ parameters[2].T) * (hidden > 0)
    into[0][:], into[1][:] = pictures.T @ back, back.sum(0)
    into[2][:], into[3][:] = hidden.T @ probabilities, probabilities.sum(0)
    return loss


class Trainer:
    def __init__(self, comm, options):
        self.comm, self.options = comm, options
        count = sum(int(np.prod(shape)) for shape in SHAPES)
        self.bucket = comm.alloc(count + 1)  # the last element is the loss
        self.sums = self.bucket.numpy()
        self.gradients = views(self.sums[:-1])
        self.flat = np.zeros(count, np.float32)
        self.parameters = views(self.flat)
        first_parameters(self.flat)

    def epoch(self, number, pictures, digits):
        """Mean loss over all images; the batches do not depend on the number of workers."""
        order = np.random.default_rng(number).permutation(len(digits))
        total = 0.0
        for start in range(0, len(order), self.options.batch_size):
            batch = order[start:start + self.options.batch_size]
            mine = batch[self.comm.rank::self.comm.size]
            self.sums[-1] = gradients_of(self.parameters, pictures[mine], digits[mine],
                                         self.gradients)
            self.comm.all_reduce(self.bucket)
            self.flat -= self.options.lr / len(batch) * self.sums[:-1]
            total += self.sums[-1]
        return total / len(digits)

    def same_everywhere(self):
        """Whether all workers have the same parameters, to the last bit."""
        mine = np.frombuffer(hashlib.sha256(self.flat.tobytes()).digest(), np.uint8)
        return (self.comm.all_gather(mine.copy()) == mine).all()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=64, help="over all workers")
    parser.add_argument("--lr", type=float, default=0.3)
    options = parser.parse_args()
    with muster.Communicator.from_env() as comm:
        training, (pictures, digits) = load_digits()
        trainer = Trainer(comm, options)
        for number in range(1, options.epochs + 1):
            started = time.monotonic()
            loss = trainer.epoch(number, *training)
            right = (outputs(trainer.parameters, pictures)[1].argmax(1) == digits).mean()
            if comm.rank == 0:
                print(f"epoch {number:2}: loss {loss:.4f}, test accuracy {right:.1%}, "
                      f"{time.monotonic() - started:.2f} s", flush=True)
        if not trainer.same_everywhere():
            raise SystemExit(f"rank {comm.rank}: the workers' parameters differ")


if __name__ == "__main__":
    main()
