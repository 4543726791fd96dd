# SPDX-License-Identifier: Apache-2.0
"""The symbols that libmuster_collective.so needs and exports: it runs on glibc 2.28, and with
another libstdc++ in the process, such as PyTorch's."""
import os
import re
import subprocess
import sys
import unittest

LIBRARY = os.environ["MUSTER_COLLECTIVE_LIBRARY"]
NEWEST_GLIBC = (2, 28)
NEEDED = r"(libc\.so\.6|libm\.so\.6|libpthread\.so\.0|libdl\.so\.2|ld-linux[\w-]*\.so\.\d)"
# asio throws inside the library if a descriptor is missing, in at least one of these cases.
NO_DESCRIPTORS = """
import os, resource, muster
used = max(map(int, os.listdir("/proc/self/fd")))
for more in range(8):
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + more, used + 8))
    try:
        muster.ServedStore().close()
        print("served")
    except muster.SystemFailed as error:
        print(error)
print("two" if "libstdc++.so" in open("/proc/self/maps").read() else "one")
"""
# After this, the loader prefers the symbols of this library in all libraries loaded later.
ANOTHER = "import ctypes; ctypes.CDLL('libstdc++.so.6', ctypes.RTLD_GLOBAL)"


def symbols():
    """(name, version or '', whether it is defined here) of each dynamic symbol."""
    shown = subprocess.run(["readelf", "--dyn-syms", "--wide", LIBRARY], text=True, check=True,
                           capture_output=True).stdout
    for line in shown.splitlines():
        match = re.match(r" *\d+: .* DEFAULT +(?:\[.*\] )?(UND|ABS|\d+) ([^ @]+)@*(\S*)", line)
        if match:
            section, name, version = match.groups()
            yield name, version, section != "UND"


@unittest.skipIf(os.environ.get("SANITIZED"), "sanitizers come with libraries of their own")
class Library(unittest.TestCase):
    def test_no_symbol_is_newer_than_glibc_2_28(self):
        checked = 0
        for name, version, is_here in symbols():
            if is_here or not version:
                continue
            family, _, number = version.partition("_")
            self.assertEqual(family, "GLIBC", f"{name} is of {version}: link it statically")
            self.assertLessEqual(tuple(map(int, number.split("."))), NEWEST_GLIBC,
                                 f"{name} is of {version}: see lib/collective/link")
            checked += 1
        self.assertGreater(checked, 100)

    def test_it_needs_no_library_but_those_of_glibc(self):
        shown = subprocess.run(["readelf", "--dynamic", "--wide", LIBRARY], text=True, check=True,
                               capture_output=True).stdout
        for name in re.findall(r"\(NEEDED\).*\[(.*)\]", shown):
            self.assertRegex(name, f"^{NEEDED}$")
        self.assertNotRegex(shown, r"\((RPATH|RUNPATH)\)")  # of the build folder

    def test_without_cpython_s_interface_the_import_says_so(self):
        done = subprocess.run([sys.executable, "-c", "import ctypes; del ctypes.pythonapi\n"
                               "import muster"], text=True, capture_output=True, check=False)
        self.assertRegex(done.stderr, "\nImportError: muster needs CPython .*CPython 3.9 or later")

    def test_exceptions_inside_it_beside_another_libstdcxx(self):
        for program, copies in ((NO_DESCRIPTORS, "one"), (ANOTHER + NO_DESCRIPTORS, "two")):
            done = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True,
                                  timeout=60, check=False)
            lines = done.stdout.splitlines()
            self.assertEqual(lines[-1:], [copies], done.stdout + done.stderr)
            self.assertIn("cannot serve the store: epoll: Too many open files", lines)
            self.assertIn("served", lines)


if __name__ == "__main__":
    unittest.main(verbosity=2)
