# SPDX-License-Identifier: Apache-2.0
"""The NumPy example, and the example in lib/python/README.md, run like by a user."""
import os
import re
import subprocess
import tempfile
import textwrap
import unittest

from support import DEADLINE, MUSTER, ROOT, environment


def run(ranks, *words):
    done = subprocess.run([MUSTER, f"--nproc-per-node={ranks}", *words], env=environment(),
                          text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=DEADLINE)
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)
    return done.stdout


class Examples(unittest.TestCase):
    def test_the_numpy_trainer_learns_the_same_on_any_number_of_workers(self):
        losses = {}
        for ranks in (1, 2, 3):
            output = run(ranks, os.path.join(ROOT, "examples", "digits_numpy.py"), "--epochs=12")
            losses[ranks] = [float(loss) for loss in re.findall(r"loss (\d\.\d+)", output)]
            accuracies = re.findall(r"accuracy (\d+\.\d)%", output)
            self.assertEqual(len(losses[ranks]), 12, output)
            self.assertGreater(float(accuracies[-1]), 92)
        for ranks in (2, 3):  # summed in a different order: rounding only
            for loss, alone in zip(losses[ranks], losses[1]):
                self.assertAlmostEqual(loss, alone, delta=0.001)

    def test_the_readme(self):
        with open(os.path.join(ROOT, "lib", "python", "README.md")) as file:
            text = re.search(r"^    import muster\n.*?(?=^    muster )", file.read(),
                             re.M | re.S).group(0)
        with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
            script.write(textwrap.dedent(text))
            script.flush()
            # --tee: a line that a rank writes in pieces is printed whole, as "[default0]:0 …".
            output = run(2, "--tee=1", script.name)
            lines = [line.split(":", 1)[1] for line in output.splitlines()]
        self.assertEqual(sorted(line[0] for line in lines), ["0", "1"])
        self.assertEqual(len({line[1:] for line in lines}), 1, lines)


if __name__ == "__main__":
    unittest.main(verbosity=2)
