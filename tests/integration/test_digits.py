# SPDX-License-Identifier: Apache-2.0
"""The example in C++ (examples/digits): the same bits for every number of workers and bucket size,
and for an interrupted training run. MUSTER_DIGITS is the path of the program."""
import fcntl
import os
import re
import signal

from harness import JobCase, eventually, read

DIGITS = os.environ["MUSTER_DIGITS"]
EPOCH = re.compile(r"^epoch +(\d+): loss (\d\.\d{4}) \((0x[0-9a-f.p+-]+)\), "
                   r"test accuracy (\d+\.\d)%, \d+\.\d\d s$", re.M)
PIPE_BYTES = 4096
LINES_THAT_FIT = 400  # bytes: the first line and some epochs, but not all of them


def losses(output):
    """The exact loss of each reported epoch."""
    return {int(number): float.fromhex(exact) for number, _, exact, _ in EPOCH.findall(output)}


def model(output):
    found = re.findall(r"^model ([0-9a-f]{16})$", output, re.M)
    assert len(found) == 1, output
    return found[0]


class Digits(JobCase):
    def train(self, ranks, *args, options=(), env=None):
        done = self.run_job(f"--nproc-per-node={ranks}", *options, DIGITS, *args, env=env, code=0)
        return done

    def result(self, ranks, *args, **more):
        """(loss of each epoch, hash of the model), to the last bit."""
        output = self.train(ranks, *args, **more).out
        return losses(output), model(output)


class Bits(Digits):
    def test_it_learns_to_read(self):
        output = self.train(2).out
        self.assertRegex(output, "^2 workers, gradients summed by shm, 1437 training images, "
                                 "360 test images; first epoch: 1\n")
        epochs = EPOCH.findall(output)
        self.assertEqual([int(epoch[0]) for epoch in epochs], list(range(1, 13)), output)
        self.assertGreater(float(epochs[-1][3]), 95)
        self.assertLess(float(epochs[-1][1]), 0.1)
        for _, rounded, exact, _ in epochs:
            self.assertEqual(rounded, f"{float.fromhex(exact):.4f}")

    def test_the_same_bits_for_any_number_of_workers_and_size_of_buckets(self):
        alone = self.result(1, "--epochs=3")  # accumulates four micro-batches, then "sends" them
        self.assertEqual(sorted(alone[0]), [1, 2, 3])
        for ranks in (1, 2, 4):
            for bucket in (1, 20000, 10**6):
                with self.subTest(ranks=ranks, bucket=bucket):
                    args = ["--epochs=3", f"--bucket-bytes={bucket}"]
                    self.assertEqual(self.result(ranks, *args), alone)

    def test_the_same_bits_over_tcp(self):
        over = {**os.environ, "MUSTER_COLLECTIVE_BACKEND": "tcp"}
        self.assertEqual(self.result(4, "--epochs=2", env=over), self.result(1, "--epochs=2"))

    def test_another_batch_gives_other_bits(self):
        """Any difference would show in the results compared above."""
        first, second = (self.result(2, "--epochs=2", f"--micro-batches={parts}")
                         for parts in (4, 8))
        for epoch in (1, 2):
            self.assertNotEqual(first[0][epoch], second[0][epoch])
            self.assertAlmostEqual(first[0][epoch], second[0][epoch], delta=0.01)
        self.assertNotEqual(first[1], second[1])


class Interrupted(Digits):
    def setUp(self):
        super().setUp()
        self.checkpoint = self.folder / "digits.checkpoint"

    def check_resumed(self, output, undisturbed):
        """Together, the output of both attempts is the whole curve; the model is the same."""
        first = [int(epoch) for epoch in re.findall(r"first epoch: (\d+)$", output, re.M)]
        self.assertEqual(len(first), 2, output)
        self.assertEqual(first[0], 1)
        self.assertGreater(first[1], 1, "it began anew")
        seen = losses(output)
        for epoch in range(first[1], 9):
            self.assertIn(epoch, seen)
        for epoch, loss in seen.items():
            self.assertEqual(loss, undisturbed[0][epoch])
        self.assertEqual(model(output), undisturbed[1])

    def test_a_worker_that_crashes_on_purpose(self):
        for ranks in (1, 2, 4):
            with self.subTest(ranks=ranks):
                self.checkpoint.unlink(missing_ok=True)
                done = self.train(ranks, "--epochs=8", "--checkpoint", self.checkpoint,
                                  "--crash-in-epoch=5", options=["--max-restarts=1"])
                self.assertIn("first epoch: 5", done.out)
                self.assertIn("restart 1 of 1", done.err)
                self.check_resumed(done.out, self.result(1, "--epochs=8"))

    def test_without_a_restart_the_job_fails(self):
        done = self.run_job("--nproc-per-node=2", DIGITS, "--epochs=3", "--crash-in-epoch=2")
        self.assertNotEqual(done.code, 0, done)
        self.assertEqual(list(losses(done.out)), [1])

    def test_a_worker_that_is_killed(self):
        for ranks, victim in ((2, 1), (4, 2)):
            with self.subTest(ranks=ranks):
                self.checkpoint.unlink(missing_ok=True)
                self.check_killed(ranks, victim)

    def check_killed(self, ranks, victim):
        # A pipe with little room blocks rank 0 until the worker has been killed, so the training
        # cannot finish before that, however slow this test is.
        reader, writer = os.pipe()
        with open(reader, encoding="utf-8") as output, open(writer, "wb", buffering=0) as pipe:
            fcntl.fcntl(writer, 1031, PIPE_BYTES)  # F_SETPIPE_SZ
            pipe.write(b"\n" * (PIPE_BYTES - LINES_THAT_FIT))
            job = self.job(f"--nproc-per-node={ranks}", "--max-restarts=1", DIGITS, "--epochs=8",
                           "--checkpoint", self.checkpoint, stdout=pipe)
            pipe.close()
            eventually(self.checkpoint.exists, "the first checkpoint")
            os.kill(self.worker_of(job, victim), signal.SIGKILL)
            text = output.read()
            ended = job.end()
        self.assertEqual(ended.code, 0, ended)
        self.assertIn("restart 1 of 1", ended.err)
        self.check_resumed(text, self.result(1, "--epochs=8"))
        self.assert_nothing_left(job)

    def worker_of(self, job, rank):
        for pid in job.pids():
            if f"RANK={rank}" in read(f"/proc/{pid}/environ").split("\0"):
                return pid
        raise AssertionError(f"no rank {rank}")

    def test_with_another_number_of_workers_it_goes_on_the_same(self):
        for ranks, epochs in ((4, 3), (1, 6), (2, 8)):
            output = self.train(ranks, f"--epochs={epochs}", "--checkpoint", self.checkpoint).out
        self.assertEqual(model(output), self.result(1, "--epochs=8")[1])
        self.assertEqual([path.name for path in self.folder.iterdir()], [self.checkpoint.name])

    def test_a_damaged_checkpoint_is_refused(self):
        self.train(1, "--epochs=1", "--checkpoint", self.checkpoint)
        whole = self.checkpoint.read_bytes()
        flipped = whole[:-1] + bytes([whole[-1] ^ 1])
        for damaged in (b"", whole[:-1], flipped, whole + b"x", b"x" + whole[1:]):
            self.checkpoint.write_bytes(damaged)
            done = self.run_job("--nproc-per-node=2", DIGITS, "--checkpoint", self.checkpoint)
            self.assertEqual(done.code, 1, done)
            self.assertIn(f"{self.checkpoint} is not a checkpoint of this network, or is damaged",
                          done.err)
            self.assertEqual(done.out, "")
            self.assertEqual(self.checkpoint.read_bytes(), damaged)


class Refused(Digits):
    def failing(self, ranks, *args, env=None):
        done = self.run_job(f"--nproc-per-node={ranks}", DIGITS, *args, env=env)
        self.assertNotEqual(done.code, 0, done)
        self.assertEqual(done.out, "")
        return done

    def test_without_a_gpu_it_says_what_is_missing(self):
        # A nonexistent driver simulates a machine without one, even where one is installed.
        environment = {**os.environ, "MUSTER_CUDA_LIBRARY": "/nowhere/libcuda.so.1"}
        done = self.failing(2, "--device=cuda", env=environment)
        own = [line for line in done.err.splitlines() if line.startswith("muster-digits: ")]
        self.assertIn(len(own), (1, 2), done)  # the second may be stopped before it prints anything
        for line in own:
            self.assertRegex(line, "no GPU can be used: |without NCCL")

    def test_a_number_of_workers_that_cannot_share_a_batch(self):
        done = self.failing(3)
        self.assertIn("3 workers cannot share a batch of 4 parts", done.err)

    def test_wrong_arguments(self):
        for args, said in ((["--epochs=x"], "invalid value 'x'"),
                            (["--device=tpu"], "invalid value 'tpu'"),
                            (["--epoch"], "epoch"), (["more"], "takes options only"),
                            (["--micro-batches=3"], "must divide")):
            done = self.failing(1, *args)
            self.assertEqual(done.code, 2, done)
            self.assertIn(said, done.err)

    def test_pictures_that_cannot_be_read(self):
        bad = self.folder / "bad.csv"
        row = ",".join(["16"] * 64)
        for text, said in (("", "it is empty"), (f"{row},3\n{row},10\n", "line 2 is not"),
                           (f"{row}\n", "line 1 is not"), (f"{row},1,1\n", "line 1 is not"),
                           (row.replace("16", "17", 1) + ",1\n", "line 1 is not")):
            bad.write_text(text)
            self.assertIn(said, self.failing(1, "--data", bad).err)
        self.assertIn("cannot open", self.failing(1, "--data", self.folder / "none").err)
        bad.write_text(f"{row},3\n" * 10)
        self.assertIn("the 8 training images", self.failing(1, "--data", bad).err)
