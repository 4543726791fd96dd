# SPDX-License-Identifier: Apache-2.0
"""Recorder: the bytes of all connections to and from one port of a host (attacker/recorder.py)."""

import json
import pathlib
import subprocess
import sys

ATTACKER = pathlib.Path(__file__).resolve().parent / "attacker"


class Recorder:
    def __init__(self, host, port):
        self.process = subprocess.Popen(
            [*host.prefix, sys.executable, str(ATTACKER / "recorder.py"), str(port)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"

    def end(self):
        out, _ = self.process.communicate("", timeout=60)
        return json.loads(out)
