# SPDX-License-Identifier: Apache-2.0
"""Kernels are real PTX: NVIDIA's assembler takes them, for an old GPU and new ones. Those of these
tests, or what the program that is named prints. Where there is no ptxas the tests are skipped."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = sys.argv.pop(1) if len(sys.argv) > 1 else None


def find_ptxas():
    homes = [os.environ.get('CUDA_HOME'), os.environ.get('CUDA_PATH'), '/usr/local/cuda']
    places = os.pathsep.join([str(Path(home) / 'bin') for home in homes if home]
                             + [os.environ.get('PATH', '')])
    return shutil.which('ptxas', path=places)


PTXAS = find_ptxas()


@unittest.skipIf(PTXAS is None, 'no ptxas: neither below CUDA_HOME or /usr/local/cuda nor in PATH')
class Assembled(unittest.TestCase):
    def setUp(self):
        folder = Path(__file__).parent / 'kernels'
        if PROGRAM:
            folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
            with open(folder / 'printed.ptx', 'wb') as file:
                subprocess.run([PROGRAM], stdout=file, timeout=60, check=True)
        self.kernels = sorted(folder.glob('*.ptx'))

    def test_for_old_and_new_gpus(self):
        self.assertGreater(len(self.kernels), 0)
        for kernels in self.kernels:
            for gpu in ('sm_75', 'sm_90', 'sm_100'):
                with self.subTest(file=kernels.name, gpu=gpu):
                    done = subprocess.run([PTXAS, f'-arch={gpu}', kernels, '-o', os.devnull],
                                          capture_output=True, text=True, timeout=60, check=False)
                    self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ''))


if __name__ == '__main__':
    unittest.main(verbosity=2)
