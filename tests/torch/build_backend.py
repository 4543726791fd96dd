# SPDX-License-Identifier: Apache-2.0
"""Builds the compiled half of the backend "muster" twice for the tests that use it. The second
build finds the result of the first."""
import os
import subprocess
import sys

import support

ENVIRONMENT = {**support.clean_environment(),
               "PYTHONPATH": os.path.join(support.ROOT, "lib", "python"),
               "MUSTER_COLLECTIVE_LIBRARY": os.environ["MUSTER_COLLECTIVE_LIBRARY"]}


def build():
    done = subprocess.run([sys.executable, "-m", "muster.torch.build"], env=ENVIRONMENT,
                          stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()


def main():
    path = build()
    assert path.startswith(ENVIRONMENT["XDG_CACHE_HOME"]), path
    built = os.stat(path).st_mtime_ns
    assert build() == path and os.stat(path).st_mtime_ns == built, "it was built again"
    print(path)


if __name__ == "__main__":
    main()
