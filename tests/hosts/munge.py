# SPDX-License-Identifier: Apache-2.0
"""A real munged on each host of a test (hosts.py), at the usual path. Hosts with the same key form
one cluster. Needs Debian's package munge."""

import os
import shutil
import subprocess

from harness import eventually, read, spawn

SOCKET = "/run/munge/munge.socket.2"


def missing():
    """Why these tests cannot run here; empty if they can."""
    lacking = [name for name in ("munged", "munge", "unmunge", "setpriv") if not shutil.which(name)]
    return f"needs the programs {', '.join(lacking)}: scripts/install_deps test" if lacking else ""


class Munged:
    """One host's daemon, which is stopped at the end of the test."""

    def __init__(self, case, host, key):
        self.host = host
        self.folder = case.folder / f"munge.{host.name}"
        self.folder.mkdir(mode=0o755)
        path = self.folder / "key"
        path.write_bytes(key)
        path.chmod(0o400)
        host.run("mount", "-t", "tmpfs", "none", "/run")
        host.run("mkdir", "-m", "755", "/run/munge")
        files = [f"--{what}={self.folder}/{what.split('-')[0]}"
                 for what in ("key-file", "pid-file", "log-file", "seed-file")]
        with open(self.folder / "said", "wb") as said:
            self.process = spawn(
                case, [*host.prefix, "munged", "--foreground", "--force", f"--socket={SOCKET}",
                       *files], stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        socket = f"/proc/{host.holder.pid}/root{SOCKET}"
        eventually(lambda: os.path.exists(socket), lambda: read(self.folder / "said"))

    def kill(self):
        self.process.kill()
        self.process.wait()
