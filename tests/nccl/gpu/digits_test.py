#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The C++ example with gradients on GPUs, over the strict fakes: bitwise the same as training on
the CPU, for every number of workers. Usage: digits_test.py MUSTER DIGITS FAKES"""
import os
import re
import subprocess
import sys
import tempfile
import unittest


class OnGpus(unittest.TestCase):
    def train(self, ranks, *args, **variables):
        done = subprocess.run([MUSTER, f'--nproc-per-node={ranks}', DIGITS, '--epochs=2', *args],
                              env={**os.environ, **variables}, text=True, timeout=120,
                              stdin=subprocess.DEVNULL, capture_output=True)
        self.assertEqual((done.returncode, done.stderr), (0, ''), done.stdout)
        found = re.findall(r'\((0x\S+)\)|^model (\w+)', done.stdout, re.M)
        self.assertEqual(len(found), 3, done.stdout)
        return found, done.stdout

    def test_the_same_bits_as_on_the_cpu(self):
        expected, _ = self.train(1)
        with tempfile.TemporaryDirectory() as folder:
            fakes = {'MUSTER_CUDA_LIBRARY': f'{FAKES}/libcuda.so.1',
                     'MUSTER_NCCL_LIBRARY': f'{FAKES}/libnccl.so.2',
                     'MUSTER_FAKE_CUDA_DEVICES': '4', 'MUSTER_FAKE_NCCL_DIR': folder}
            for ranks in (1, 2, 4):
                for bucket in (1, 20000):
                    with self.subTest(ranks=ranks, bucket=bucket):
                        found, text = self.train(ranks, '--device=cuda',
                                                 f'--bucket-bytes={bucket}', **fakes)
                        self.assertIn('gradients summed by NCCL', text)
                        self.assertEqual(found, expected)

    def test_a_gpu_that_a_worker_lacks_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [MUSTER, '--nproc-per-node=2', DIGITS, '--device=cuda'], text=True, timeout=120,
                stdin=subprocess.DEVNULL, capture_output=True,
                env={**os.environ, 'MUSTER_CUDA_LIBRARY': f'{FAKES}/libcuda.so.1',
                     'MUSTER_NCCL_LIBRARY': f'{FAKES}/libnccl.so.2',
                     'MUSTER_FAKE_CUDA_DEVICES': '1', 'MUSTER_FAKE_NCCL_DIR': folder})
        self.assertEqual((done.returncode, done.stdout), (1, ''))
        self.assertRegex(done.stderr, r'(?m)^muster-digits: .*\b1\b')


if __name__ == '__main__':
    MUSTER, DIGITS, FAKES = sys.argv[1:4]
    unittest.main(argv=sys.argv[:1], verbosity=2)
