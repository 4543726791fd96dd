# SPDX-License-Identifier: Apache-2.0
"""own_pids.py ARGUMENTS: python3 ARGUMENTS in a PID namespace of its own. When it ends or is
killed, the kernel ends all that is left, daemons of a scheduler too. Without root it is python3
alone: the tests then skip themselves."""

import os
import sys

# The shell is the namespace's init: it reaps orphans while it waits.
INIT = '"$@"; exit $?'

python = [sys.executable, *sys.argv[1:]]
if os.getuid() == 0:
    python = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
              "sh", "-c", INIT, "sh", *python]
os.execvp(python[0], python)
