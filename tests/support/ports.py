# SPDX-License-Identifier: Apache-2.0
"""Ports that a test names to others before anybody listens on them."""
import random
import socket


def free_port(address="127.0.0.1"):
    """Below the ports that the kernel gives to connections, so that none takes it meanwhile."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    while True:
        port = random.randint(12000, 31000)
        with socket.socket(family) as probe:
            try:
                probe.bind((address, port))
            except OSError:
                continue
            return port
