# SPDX-License-Identifier: Apache-2.0
"""TLS from strangers, through the program openssl, after our protocol's greeting."""
import socket
import struct
import subprocess
import threading

IN_THE_CLEAR = (20, 21, 22)  # change of cipher, alert, handshake
ALL = (*IN_THE_CLEAR, 23)  # and encrypted data, after a key agreement
REPLY = 10  # bytes of the other side's preamble and reply
CLOSED_WITHIN = 20.0
SUITES = ["-ciphersuites", "TLS_AES_128_GCM_SHA256"]


def is_of(data, kinds):
    """Complete records of these types, and nothing else."""
    while data:
        if len(data) < 5 or data[0] not in kinds or data[1] != 3:
            return False
        length = struct.unpack(">H", data[3:5])[0]
        if len(data) < 5 + length:
            return False
        data = data[5 + length:]
    return True


def strangers(job):
    """Options of openssl s_client for clients without a key, or with a wrong one."""
    def psk(key, identity=job, *more):
        return [*SUITES, "-tls1_3", "-psk_identity", identity, "-psk", key, *more]

    return {
        "with a key of zeros": psk("00" * 32),
        "with another key": psk("5a" * 32),
        "with a short key": psk("5a" * 4),
        "with a long key": psk("5a" * 64),
        "with the job's id as the key": psk(job.encode().hex()),
        "with another identity": psk("5a" * 32, "another"),
        "with a suite of another hash": ["-ciphersuites", "TLS_AES_256_GCM_SHA384", "-tls1_3",
                                         "-psk_identity", job, "-psk", "5a" * 32],
        "without a key": [*SUITES, "-tls1_3"],
        "without a key, with all suites": ["-tls1_3"],
        "of version 1.2": ["-tls1_2"],
        "of version 1.2 with a key": ["-tls1_2", "-psk_identity", job, "-psk", "5a" * 32,
                                      "-cipher", "PSK"],
        "without encryption": ["-tls1_2", "-cipher", "NULL:@SECLEVEL=0"],
    }


def answer_to(connect, greeting, options, request):
    """All bytes that the other side sends to `openssl s_client` with these options, which sends the
    request as soon as it can. None if the other side does not close for a long time."""
    with socket.create_server(("127.0.0.1", 0)) as local:
        client = subprocess.Popen(
            ["openssl", "s_client", "-quiet", "-connect",
             f"127.0.0.1:{local.getsockname()[1]}", *options],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            local.settimeout(CLOSED_WITHIN)
            near, _ = local.accept()
            with near, connect() as far:
                far.settimeout(CLOSED_WITHIN)
                far.sendall(greeting)
                head = read_up_to(far, REPLY)
                threading.Thread(target=carry, args=(near, far), daemon=True).start()
                client.stdin.write(request)
                client.stdin.flush()
                return head + carried(far, near)
        except socket.timeout:
            return None
        except (BrokenPipeError, ConnectionResetError):
            return b""
        finally:
            client.kill()
            client.communicate()


def read_up_to(stream, count):
    out = b""
    while len(out) < count and (data := stream.recv(count - len(out))):
        out += data
    return out


def carry(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # the other direction shows what was received


def carried(source, target):
    out = b""
    while data := received(source):
        out += data
        try:
            target.sendall(data)
        except OSError:
            pass  # openssl has given up, but later bytes are still of interest
    return out


def received(source):
    """Empty if the other side resets the connection. May raise TimeoutError."""
    try:
        return source.recv(65536)
    except ConnectionError:
        return b""
