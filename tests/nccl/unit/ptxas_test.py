# SPDX-License-Identifier: Apache-2.0
"""The library's kernels, printed by the given program, are valid PTX: NVIDIA's assembler accepts
them for an old GPU and for new ones. Skipped if ptxas is missing."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = sys.argv.pop(1)


def find_ptxas():
    homes = [os.environ.get('CUDA_HOME'), os.environ.get('CUDA_PATH'), '/usr/local/cuda']
    places = os.pathsep.join([str(Path(home) / 'bin') for home in homes if home]
                             + [os.environ.get('PATH', '')])
    return shutil.which('ptxas', path=places)


PTXAS = find_ptxas()


@unittest.skipIf(PTXAS is None, 'no ptxas: neither below CUDA_HOME or /usr/local/cuda nor in PATH')
class Assembled(unittest.TestCase):
    def test_for_old_and_new_gpus(self):
        kernels = Path(self.enterContext(tempfile.TemporaryDirectory())) / 'kernels.ptx'
        with open(kernels, 'wb') as file:
            subprocess.run([PROGRAM, 'kernels'], stdout=file, timeout=60, check=True)
        for gpu in ('sm_75', 'sm_90', 'sm_100'):
            with self.subTest(gpu=gpu):
                done = subprocess.run([PTXAS, f'-arch={gpu}', kernels, '-o', os.devnull],
                                      capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ''))


if __name__ == '__main__':
    unittest.main(verbosity=2)
