# SPDX-License-Identifier: Apache-2.0
"""The attacks: each sends bytes to a port of a running job and judges the answer. A stranger knows
everything about the job except its token: addresses, ports, job id, node ids, and the recorded
traffic between its nodes."""
import pathlib
import random
import re
import socket
import struct

import frames
import tls

HEADER = pathlib.Path(__file__).resolve().parents[3] / "rendezvous/wire/round_limits.hpp"
# From the source: with a different version from the job's, every attack would be refused before the
# actual check.
VERSION = int(re.search(r"kRoundVersion = (\d+);", HEADER.read_text())[1])
OLDER = range(1, VERSION)
CLOSED_WITHIN = 15.0  # s; longer than any time limit for unauthenticated clients
REFUSE = 2
REASON_MAX = 8
HANDSHAKE_MAX = 2048  # bytes of answer that a replay may cause


class Door:
    """A port of a job, on which a process must listen; otherwise connecting raises OSError. `job`:
    its id. `recorded`: what clients of this port have sent, as the bytes of each connection."""

    def __init__(self, address, port, job, recorded=()):
        self.address, self.port, self.job, self.recorded = address, port, job, recorded

    def connect(self):
        return socket.create_connection((self.address, self.port), timeout=CLOSED_WITHIN)

    def answer_to(self, *pieces, ends=False):
        """Everything received until the other side closes. None if it does not close for a long
        time."""
        answer = b""
        with self.connect() as stream:
            try:
                for piece in pieces:
                    stream.sendall(piece)
                if ends:
                    stream.shutdown(socket.SHUT_WR)
                while data := stream.recv(65536):
                    answer += data
            except socket.timeout:
                return None
            except OSError:
                pass  # a reset also counts as a refusal
        return answer


def is_refused_by_rounds(answer, secrets=()):
    """True if the connection was closed after at most a preamble and a refusal, or after TLS
    messages from before the key agreement; and if the answer reveals nothing about the job."""
    if answer is None or any(secret.encode() in answer for secret in secrets):
        return False
    rest = answer[9:] if answer.startswith(frames.MAGIC) else answer
    return any(tls.is_of(rest[start:], tls.IN_THE_CLEAR) or is_refusal(rest[start:])
               for start in (0, 1))  # from version 4 on, after a byte with the kind


def is_closed_replay(answer):
    """A replayed greeting causes at most as much of a handshake as the original node's, which the
    replayer cannot read; then the connection ends."""
    if answer is None or len(answer) > HANDSHAKE_MAX:
        return False
    return is_refused_by_rounds(answer) or tls.is_of(answer[10:], tls.ALL)


def is_refusal(rest):
    if len(rest) < 8:
        return False
    length, kind, reason = struct.unpack("<IBB", rest[:6])
    return kind == REFUSE and reason <= REASON_MAX and length == len(rest) - 5


def on_rounds(door):
    """(name, attack) for a port that accepts nodes; an attack returns whether it was refused."""
    def sends(*pieces, ends=False, secrets=()):
        return lambda: is_refused_by_rounds(door.answer_to(*pieces, ends=ends), secrets)

    def greeting(proofs, job=door.job):
        return frames.preamble(VERSION) + frames.introduction(job, proofs)

    for proofs, how in enumerate(("in the clear", "in place of TLS")):
        for kind, frame in frames.forged(door.job).items():
            yield (f"{kind} {how}",
                   sends(greeting(proofs), frames.hello(door.job) + frame, ends=True))
    for version in OLDER:
        for kind, frame in frames.forged(door.job).items():
            yield (f"{kind} in version {version}",
                   sends(frames.preamble(version), frame, ends=True, secrets=[door.job]))
    for kind, frame in frames.forged(door.job).items():
        yield f"{kind} without a preamble", sends(frame, ends=True)
    yield "another job", sends(greeting(1, "another"), ends=True, secrets=[door.job])
    for length in range(1, 9):
        yield (f"the first {length} bytes of a preamble, and silence",
               sends(frames.preamble(VERSION)[:length]))
    yield "a preamble, and silence", sends(frames.preamble(VERSION))
    yield "an introduction, and silence", sends(greeting(1))
    yield from on_tls(door, sends, greeting(1))


def on_tls(door, sends, greeting):
    def replays(session):
        return lambda: is_closed_replay(door.answer_to(session, ends=True))

    for number, session in enumerate(door.recorded):
        yield f"session {number} once more", replays(session)
        for share in (9, 10, 14, 60, 200, len(session) // 2):
            yield f"the first {share} bytes of session {number}", replays(session[:share])
        flips = random.Random(number)
        for _ in range(8):
            at = flips.randrange(9, min(len(session), 400))
            flipped = bytes([session[at] ^ 1 << flips.randrange(8)])
            changed = session[:at] + flipped + session[at + 1:]
            yield f"session {number} with another byte {at}", replays(changed)
    for seed in range(16):
        noise = random.Random(seed).randbytes(2000)
        yield f"noise {seed} behind an introduction", sends(greeting, noise, ends=True)
        yield f"noise {seed}", sends(noise, ends=True)
    for kind in (20, 21, 22, 23, 24):
        record = struct.pack(">BHH", kind, 0x0303, 40) + bytes(40)
        yield f"a record of kind {kind}", sends(greeting, record, ends=True)
    huge = struct.pack(">BHHB", 22, 0x0303, 0xFFFF, 1) + bytes(0xFFFF)
    yield "a record of 64 KiB", sends(greeting, huge, ends=True)
    hello = frames.hello(door.job)
    for name, options in tls.strangers(door.job).items():
        yield (f"TLS {name}", lambda options=options: is_refused_by_rounds(
            tls.answer_to(door.connect, greeting, options, hello)))


def on_store(door):
    """(name, attack) for a workers' store, which must not answer at all."""
    def sends(*pieces):
        return lambda: door.answer_to(*pieces, ends=True) == b""

    ping = frames.store_requests()["PING"]
    for kind, request in frames.store_requests().items():
        yield f"{kind}", sends(frames.GREETING + request + ping)
        yield f"{kind} in pieces", sends(frames.GREETING, request, ping)
    get = frames.older_store_requests()["GETNUMKEYS"]
    for kind, request in frames.older_store_requests().items():
        yield f"{kind} of the older dialect", sends(request + get)
    for seed in range(8):
        yield f"noise {seed}", sends(random.Random(seed).randbytes(2000))


def crowd(door, count=200):
    """Connections that are kept open and silent after an introduction."""
    held = []
    try:
        for _ in range(count):
            held.append(door.connect())
            held[-1].sendall(frames.preamble(VERSION) + frames.introduction(door.job, 1))
    except OSError:
        pass
    return held
