# SPDX-License-Identifier: Apache-2.0
"""own_pids.py ARGUMENTS: runs python3 ARGUMENTS in a separate PID namespace. When it exits or is
killed, the kernel kills everything that is left, including a scheduler's daemons. Without root it
only runs python3; the tests then skip themselves."""

import os
import sys

# The shell is the namespace's init process: it reaps orphans while it waits.
INIT = '"$@"; exit $?'

python = [sys.executable, *sys.argv[1:]]
if os.getuid() == 0:
    python = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
              "sh", "-c", INIT, "sh", *python]
os.execvp(python[0], python)
