# SPDX-License-Identifier: Apache-2.0
"""A running muster-store for Python tests: StoreProcess() starts $STORE_PROGRAM on a free port and
stops it at the end of its scope. Waits for events with a deadline, never for a fixed time."""
import os
import subprocess
import tempfile
from pathlib import Path

from cases import eventually

TIMEOUT = 60.0  # reached only if something is broken


def receive(connection, size):
    """Exactly `size` bytes, or what arrived before the other side closed."""
    data = b''
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            break
        data += piece
    return data


class StoreProcess:
    def __init__(self, *options, prefix=(), environment=None, program=None):
        self.folder = tempfile.TemporaryDirectory(prefix='muster-store-')
        self.port_file = Path(self.folder.name) / 'port'
        self.command = [*prefix, program or os.environ['STORE_PROGRAM'], '--port', '0',
                        '--port-file', str(self.port_file), *options]
        self.environment = environment
        self.process = None
        self.port = None
        self.errors = ''

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True, env=self.environment)
        try:
            eventually(lambda: self.port_file.exists() or self.process.poll() is not None,
                       'muster-store writes its port', TIMEOUT)
        except AssertionError:
            self.stop()
            raise
        if not self.port_file.exists():
            self.stop()
            raise RuntimeError(f'muster-store did not start: {self.errors}')
        self.port = int(self.port_file.read_text())
        return self

    def __exit__(self, *_):
        self.stop()
        self.folder.cleanup()

    def stop(self):
        """Stops it like a user; returns its exit code and keeps its output in `errors`."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            _, errors = self.process.communicate(timeout=TIMEOUT)
            self.errors += errors or ''
        except ValueError:  # read already
            pass
        return self.process.returncode

    def resident_kib(self):
        for line in Path(f'/proc/{self.process.pid}/status').read_text().splitlines():
            if line.startswith('VmRSS:'):
                return int(line.split()[1])
        raise RuntimeError('muster-store has ended')
