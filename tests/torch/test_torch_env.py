# SPDX-License-Identifier: Apache-2.0
"""scripts/torch_env, in a separate tree with a PyTorch of a few bytes and no network."""
import os
import shutil
import subprocess
import unittest
import zipfile

import support


def make_wheel(folder, name, version, files):
    """A wheel is a zip file with the modules and three files that describe them."""
    info = f"{name}-{version}.dist-info"
    about = {f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
             f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n"
                              "Tag: py3-none-any\n"}
    with zipfile.ZipFile(f"{folder}/{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in {**files, **about}.items():
            wheel.writestr(path, text)
        record = "".join(f"{path},,\n" for path in [*files, *about, f"{info}/RECORD"])
        wheel.writestr(f"{info}/RECORD", record)


class TorchEnv(support.TorchCase):
    def setUp(self):
        super().setUp()
        for part in ("scripts", "tests/torch", "wheels"):
            os.makedirs(os.path.join(self.folder, part))
        self.script = shutil.copy(os.path.join(support.ROOT, "scripts", "torch_env"),
                                  os.path.join(self.folder, "scripts"))
        with open(os.path.join(self.folder, "tests", "torch", "requirements.txt"), "w") as file:
            file.write("# pinned\nnumpy==1.0\ntorch==9.9\n")
        self.home = os.path.join(self.folder, "muster", "torch-9.9")
        self.python = os.path.join(self.home, "bin", "python")
        self.env = support.clean_environment({
            "XDG_CACHE_HOME": self.folder, "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": os.path.join(self.folder, "wheels"), "PIP_NO_CACHE_DIR": "1"})

    def offer_wheels(self):
        wheels = os.path.join(self.folder, "wheels")
        make_wheel(wheels, "numpy", "1.0", {"numpy.py": ""})
        modules = ("", "nn/", "nn/parallel/", "distributed/", "distributed/run/")
        make_wheel(wheels, "torch", "9.9", {f"torch/{path}__init__.py": "" for path in modules})

    def start(self, *args):
        return subprocess.Popen([self.script, *args], env=self.env, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def call(self, *args):
        process = self.start(*args)
        output, words = process.communicate(timeout=support.DEADLINE)
        return process.returncode, output.strip(), words

    def test_a_failure_is_one_clear_line_and_leaves_nothing_that_looks_whole(self):
        code, output, words = self.call()
        self.assertEqual((code, output), (1, ""))
        self.assertRegex(words.splitlines()[-1], r"^torch_env: pip failed to install PyTorch 9\.9: "
                                                 r"ERROR: .* - see .*torch-9\.9\.log$")
        self.assertEqual(self.call("--find"), (1, "", ""))
        self.offer_wheels()
        self.assertEqual(self.call()[:2], (0, self.python))

    def test_two_at_once_make_it_once_and_later_calls_find_it(self):
        self.offer_wheels()
        calls = [self.start(), self.start()]
        words = ""
        for call in calls:
            output, said = call.communicate(timeout=support.DEADLINE)
            self.assertEqual((call.returncode, output.strip()), (0, self.python), said)
            words += said
        self.assertEqual(words.count("with PyTorch"), 1, words)
        self.assertEqual(self.call(), (0, self.python, ""))
        self.assertEqual(self.call("--find"), (0, self.python, ""))
        os.remove(os.path.join(self.home, "stamp"))  # as if it had been interrupted
        self.assertEqual(self.call("--find"), (1, "", ""))
        self.assertIn("with PyTorch", self.call()[2])
        with open(os.path.join(self.folder, "tests", "torch", "requirements.txt"), "a") as file:
            file.write("# other requirements\n")
        self.assertEqual(self.call("--find"), (1, "", ""))


if __name__ == "__main__":
    unittest.main(verbosity=2)
