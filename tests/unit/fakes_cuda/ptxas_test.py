# SPDX-License-Identifier: Apache-2.0
"""The kernels of these tests are real PTX: NVIDIA's assembler takes them, for an old GPU and a new
one. Where there is no ptxas the tests are skipped."""
import os
import shutil
import subprocess
import unittest
from pathlib import Path

KERNELS = sorted((Path(__file__).parent / 'kernels').glob('*.ptx'))


def find_ptxas():
    homes = [os.environ.get('CUDA_HOME'), os.environ.get('CUDA_PATH'), '/usr/local/cuda']
    places = os.pathsep.join([str(Path(home) / 'bin') for home in homes if home]
                             + [os.environ.get('PATH', '')])
    return shutil.which('ptxas', path=places)


PTXAS = find_ptxas()


@unittest.skipIf(PTXAS is None, 'no ptxas: neither below CUDA_HOME or /usr/local/cuda nor in PATH')
class Assembled(unittest.TestCase):
    def check(self, gpu):
        self.assertGreater(len(KERNELS), 0)
        for kernels in KERNELS:
            with self.subTest(file=kernels.name):
                done = subprocess.run([PTXAS, f'-arch={gpu}', kernels, '-o', os.devnull],
                                      capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ''))

    def test_for_sm_75(self):
        self.check('sm_75')

    def test_for_sm_90(self):
        self.check('sm_90')


if __name__ == '__main__':
    unittest.main(verbosity=2)
