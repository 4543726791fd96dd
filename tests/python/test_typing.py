# SPDX-License-Identifier: Apache-2.0
"""Types, docstrings and syntax of the package: mypy accepts it and its caller, every public name is
documented, and Python 3.9 can parse it. Does not import the package."""
import ast
import glob
import os
import shutil
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PACKAGE = os.path.join(ROOT, "lib", "python", "muster")
OLDEST = (3, 9)
FILES = sorted(glob.glob(os.path.join(PACKAGE, "**", "*.py"), recursive=True))


def mypy():
    """The command; None if no interpreter has it."""
    for python in (sys.executable, "/usr/bin/python3"):
        command = [python, "-m", "mypy"]
        if shutil.which(python) and subprocess.run([*command, "--version"], capture_output=True,
                                                   check=False).returncode == 0:
            return command
    return None


class Types(unittest.TestCase):
    def check(self, *paths):
        command = mypy()
        if command is None:
            self.skipTest("no interpreter has mypy - install the package mypy")
        config = os.path.join(ROOT, "lib", "python", "mypy.ini")
        done = subprocess.run([*command, "--config-file", config, *paths], cwd=ROOT, text=True,
                              capture_output=True, timeout=280, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_package(self):
        self.check(PACKAGE)

    def test_a_caller(self):
        self.check(os.path.join(HERE, "typed_caller.py"))


class Syntax(unittest.TestCase):
    def test_it_is_that_of_the_oldest_python(self):
        self.assertGreater(len(FILES), 15)
        for file in FILES:
            with self.subTest(file=file), open(file, encoding="utf-8") as opened:
                ast.parse(opened.read(), file, feature_version=OLDEST)

    def test_no_annotation_is_evaluated(self):
        """So that they may use expressions that only later Pythons can evaluate."""
        for file in FILES:
            with open(file, encoding="utf-8") as opened:
                text = opened.read()
            if any(isinstance(node, ast.arg) and node.annotation or isinstance(node, ast.AnnAssign)
                   for node in ast.walk(ast.parse(text))):
                self.assertIn("from __future__ import annotations\n", text, file)


class Docstrings(unittest.TestCase):
    def public(self, body, prefix=""):
        """(name, node) of public functions and classes, including methods."""
        for node in body:
            if not isinstance(node, (ast.ClassDef, ast.FunctionDef)) or node.name.startswith("_"):
                continue
            overloaded = any("overload" in ast.dump(each) for each in node.decorator_list)
            if not overloaded:
                yield prefix + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from self.public(node.body, f"{node.name}.")

    def test_every_public_name_has_one(self):
        exported = {"communicator.py": "Communicator ServedStore", "operations.py": "Operations",
                    "gradients.py": "GradientSync GradientStats Gradient", "work.py": "Work",
                    "array_view.py": "ArrayView", "bucket.py": "Bucket",
                    "jobs/errors.py": "JobError WorkerError", "jobs/launching.py": "launch",
                    "jobs/notebook.py": "notebook_launcher",
                    "elastic/_run.py": "run", "elastic/state.py": "State",
                    "elastic/sampler.py": "Sampler", "elastic/torch_state.py": "TorchState",
                    "spark.py": "TorchDistributor",
                    "torch/attached.py": "attach Attached", "torch/bootstrap.py": "create"}
        count = 0
        for file, names in exported.items():
            with open(os.path.join(PACKAGE, file), encoding="utf-8") as opened:
                body = ast.parse(opened.read()).body
            for name, node in self.public(body):
                # start() in the base class is documented where it is overridden.
                if name.partition(".")[0] in names.split() and name != "Operations.start":
                    count += 1
                    self.assertTrue(ast.get_docstring(node), f"{file}: {name}")
        self.assertGreater(count, 60)


if __name__ == "__main__":
    unittest.main(verbosity=2)
