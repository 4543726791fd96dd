# SPDX-License-Identifier: Apache-2.0
"""The collective library for arm64, as far as another architecture can test it: every source file
compiles, and the arithmetic becomes NEON instructions. arm64_test.py SOURCE-TREE"""
import concurrent.futures
import glob
import os
import re
import subprocess
import sys
import unittest

ROOT = sys.argv.pop(1)
ROOM = os.path.join(ROOT, "lib", "collective")
COMPILE = ["clang++-19", "--target=aarch64-linux-gnu", "-std=c++23", "-Wall", "-Wextra", "-Werror",
           "-I", os.path.join(ROOT, "lib"), "-I", ROOT, "-DASIO_STANDALONE", "-DASIO_NO_DEPRECATED"]
# Backends and planted errors of nccl/ need NCCL's headers, which are not always installed.
SOURCES = sorted(source for source in glob.glob(os.path.join(ROOM, "**", "*.cpp"), recursive=True)
                 if "/nccl/" not in source)


def compiled(*args):
    """(exit code, the compiler's messages, its output)."""
    done = subprocess.run([*COMPILE, *args], capture_output=True, text=True, timeout=200)
    return done.returncode, done.stderr, done.stdout


def assembly(source):
    code, errors, text = compiled("-O3", "-ffp-contract=off", "-S", "-o", "-",
                                  os.path.join(ROOM, source))
    return text if code == 0 else errors


class Arm64(unittest.TestCase):
    def test_every_source_compiles(self):
        self.assertGreater(len(SOURCES), 30)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for source, (code, errors, _) in zip(
                    SOURCES, pool.map(lambda source: compiled("-fsyntax-only", source), SOURCES)):
                with self.subTest(source=os.path.relpath(source, ROOT)):
                    self.assertEqual(code, 0, errors)

    def test_sums_are_neon_without_fused_steps(self):
        text = assembly("kernels/kernels_portable.cpp")
        # Additions and multiplications of whole registers: f32, f64, i32, i8.
        for instruction in (r"fadd\s+v\d+\.4s", r"fadd\s+v\d+\.2d", r"fmul\s+v\d+\.4s",
                            r"add\s+v\d+\.4s", r"add\s+v\d+\.16b"):
            self.assertTrue(re.search(instruction, text), f"no {instruction}")
        fused = re.findall(r"\s(fmla|fmls|fmadd|fmsub)\s", text)
        self.assertEqual(fused, [], "a fused step rounds once where other processors do twice")


if __name__ == "__main__":
    if compiled("-fsyntax-only", "-include", "expected", "-x", "c++", os.devnull)[0] != 0:
        print("skipped: clang++-19 or the headers of arm64 are not there "
              "(scripts/install_deps test brings libstdc++-12-dev-arm64-cross)")
        sys.exit(77)
    unittest.main(verbosity=2)
