# SPDX-License-Identifier: Apache-2.0
"""Ports that a test passes to other processes before any of them listens."""
import atexit
import random
import socket

# Below the ports that launchers derive from a scheduler's job (20000 to 28999) and below those that
# the kernel assigns to outgoing connections.
FIRST, LAST = 12000, 19999

_claims = []  # sockets that keep a port claimed as long as this process lives


@atexit.register
def _release():
    for claim in _claims:
        claim.close()


def _claim(port):
    """False if another test process on this host has claimed the port."""
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0muster-test-port-{port}")
    except OSError:
        claim.close()
        return False
    _claims.append(claim)
    return True


def _is_free(address, port):
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def free_port(address="127.0.0.1", count=1):
    """A port that no process on this host uses and that no other test gets while this one runs; or
    the first of several in a row."""
    while True:
        port = random.randint(FIRST, LAST - count + 1)
        ports = range(port, port + count)
        if all(_is_free(address, each) for each in ports) and all(map(_claim, ports)):
            return port
