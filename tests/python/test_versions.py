# SPDX-License-Identifier: Apache-2.0
"""The package and the examples use nothing newer than Python 3.9: vermin knows when each module,
function, argument and piece of syntax was added. Versions that are written in several places agree.
Does not import the package."""
import os
import re
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OLDEST = "3.9"


def vermin(*paths):
    """(exit code, what needs a newer Python)"""
    tools = subprocess.run([os.path.join(ROOT, "scripts", "package_env")], text=True, check=True,
                           stdout=subprocess.PIPE).stdout.strip()
    done = subprocess.run([os.path.join(tools, "bin", "vermin"), f"--target={OLDEST}-",
                           "--violations", "--no-tips", "-vvv", *paths], text=True,
                          capture_output=True, check=False)
    return done.returncode, done.stdout + done.stderr


def read(*names):
    with open(os.path.join(ROOT, *names), encoding="utf-8") as file:
        return file.read()


class Versions(unittest.TestCase):
    def test_nothing_is_younger_than_the_oldest_python(self):
        code, said = vermin(os.path.join(ROOT, "lib", "python", "muster"),
                            os.path.join(ROOT, "examples"))
        self.assertEqual(code, 0, said)

    def test_what_is_younger_is_found(self):
        for young in ("import tomllib", "zip((), (), strict=True)", "match 1:\n    case _: pass"):
            with self.subTest(young), tempfile.TemporaryDirectory(prefix="muster-test-") as folder:
                path = os.path.join(folder, "young.py")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(young + "\n")
                code, said = vermin(path)
                self.assertNotEqual(code, 0, said)

    def test_pip_asks_for_that_python(self):
        asked = re.search(r'^requires-python = ">=(.*)"$', read("pyproject.toml"), re.M).group(1)
        self.assertEqual(asked, OLDEST)

    def test_the_package_has_the_version_of_the_tree(self):
        tree = re.search(r"^project\(muster VERSION ([\d.]+) ", read("CMakeLists.txt"), re.M)
        package = re.search(r'^__version__ = "(.*)"', read("lib", "python", "muster",
                                                          "__init__.py"), re.M)
        self.assertEqual(package.group(1), tree.group(1))


if __name__ == "__main__":
    unittest.main(verbosity=2)
