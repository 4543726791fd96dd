# SPDX-License-Identifier: Apache-2.0
"""Messages between agents, and from workers to a store, written from rendezvous/PROTOCOL.md alone.
A stranger who has read that document knows the same."""
import struct

MAGIC = b"\xa7MUSTER"
JOIN, ASK, CARRY = 0, 1, 2
NODE, ROUND_ID = 0x5712A4E2, (7, 0x5712A4E2)  # invented by the stranger
GREETING = bytes.fromhex("00cef7853c")


def preamble(version):
    return MAGIC + struct.pack("<H", version)


def introduction(job, proofs):
    """What follows a preamble from version 5 on; proofs: the kinds of proof that the sender can
    provide."""
    return u8(proofs) + text(job)


def frame(kind, body=b""):
    return struct.pack("<IB", len(body), kind) + body


u8, u16, u32, u64, i32, i64 = (struct.Struct(form).pack
                              for form in ("<B", "<H", "<I", "<Q", "<i", "<q"))


def name(value):
    return u8(0) + u8(len(value)) + value.encode()


def text(value):
    return u16(len(value)) + value.encode()


def blob(value):
    return u32(len(value)) + value


def round_id(value=ROUND_ID):
    return u64(value[0]) + u64(value[1])


def node(number=NODE, address="10.77.0.3", rank=-1):
    return (u64(number) + name("stranger") + name(address) + name("default") + u16(4711) + i32(1)
            + i32(rank))


def round_of(*nodes):
    return round_id() + u64(NODE) + i32(0) + u32(len(nodes)) + b"".join(nodes)


def terms(job):
    return (text(job) + name("c10d") + i32(2) + i32(3) + i32(3) + name("0.1.0") + i32(0) + u64(0)
            + text("train") + u8(0))


def offer():
    return u8(1) + u32(0) + u8(0)


def inheritance():
    return u64(0) + round_id((0, 0)) + u32(0) + u8(0)


def mends(epoch=0):
    return u64(epoch) + i32(0)


def client():
    return name("10.77.0.3") + u16(4711) + name("10.77.0.1") + u16(4712)


def hello(job, purpose=JOIN, number=NODE, coordinates=0, quorum=0, rank=-1):
    return frame(1, u8(purpose) + terms(job) + node(number, rank=rank) + round_id() + round_id()
                 + u64(0) + u8(0) + u8(0) + u8(coordinates) + u8(quorum) + inheritance() + mends()
                 + i64(0) + u32(0))


def forged(job, number=NODE):
    """One frame of each kind, by name, for this job and from this node."""
    me = node(number)
    failed = (round_id() + i32(0) + i32(1) + i64(0) + i64(0) + u8(1) + u8(1) + u8(0)
              + name("") + text("x"))
    close = (u8(0) + i32(99) + text("over") + i32(0) + name("stranger") + text("x") + blob(b"")
             + i32(0) + u32(0))
    return {
        "Hello to join": hello(job, number=number),
        "Hello to ask": hello(job, ASK, number),
        "Hello of a leader": hello(job, number=number, coordinates=1, quorum=1),
        "Hello for rank 0": hello(job, number=number, rank=0),
        "Hello to carry": hello(job, CARRY, number),
        "Refuse": frame(2, u8(0) + text("go away")),
        "Welcome": frame(3, me + i64(10**9) + name("")),
        "Redirect": frame(4, me),
        "Claim": frame(5, me + me + round_id() + u8(1) + inheritance()),
        "Beat": frame(6, u64(1) + u64(0)),
        "Pong": frame(7, u64(1) + u8(1)),
        "Ready": frame(8, u8(1)),
        "RollCall": frame(9, i32(1) + i32(2) + u32(0) + u32(0) + u32(0)),
        "Propose": frame(10, round_of(me) + round_of()),
        "Accept": frame(11, round_id() + name("10.77.0.3") + u16(4711) + offer()),
        "Start": frame(12, round_id() + name("10.77.0.3") + u16(4711) + i32(0) + offer()),
        "Failed": frame(13, failed),
        "Details": frame(14, round_id() + i32(0) + blob(b"{}")),
        "Regroup": frame(15, text("again") + i32(0) + i32(0)),
        "Stopping": frame(16, round_id()),
        "Finished": frame(17, round_id()),
        "Dismiss": frame(18, text("")),
        "Leave": frame(19, text("leaves") + u8(1)),
        "Close": frame(20, close),
        "ShowRounds": frame(21),
        "Rounds": frame(22, round_of(me) + round_of(me) + round_of()),
        "Vouch": frame(23, u64(number) + u64(1) + u32(0) + client()),
        "Vouched": frame(24, u64(number) + u64(1) + u32(1) + u8(0) + name("stranger")),
        "Carry": frame(25, blob(GREETING)),
        "Stalled": frame(26, round_id() + u64(0)),
        "Look": frame(27, round_id() + u64(1) + i64(10**9) + u32(4096)),
        "Looked": frame(28, round_id() + u64(1) + blob(b"")),
        "Judged": frame(29, round_id() + u64(1) + blob(b"")),
        "Waited": frame(30, round_id() + i64(0) + u32(0)),
        "Lacking": frame(31, round_id() + u64(1) + u32(1) + i32(0) + u8(1) + u8(0) + u8(0) + u64(0)
                         + failed + text("")),
        "Mended": frame(32, round_id() + u64(1)),
        "Mend": frame(33, round_id() + mends(2**63) + u64(number) + u64(1) + u32(1) + i32(0)
                      + i32(0) + text("x")),
        "NoMend": frame(34, round_id() + u64(1) + text("x")),
    }


def key(value):
    return u64(len(value)) + value


def store_requests():
    """One request of each kind to a store, by name; each session begins with the greeting."""
    some = key(b"/stranger")
    keys = u64(1) + some
    return {
        "SET": u8(1) + some + key(b"1"),
        "COMPARE_SET": u8(2) + some + key(b"") + key(b"1"),
        "GET": u8(3) + some,
        "ADD": u8(4) + some + i64(1),
        "CHECK": u8(5) + keys,
        "WAIT": u8(6) + keys,
        "GETNUMKEYS": u8(7),
        "DELETE_KEY": u8(8) + some,
        "APPEND": u8(9) + some + key(b"1"),
        "MULTI_GET": u8(10) + keys,
        "MULTI_SET": u8(11) + u64(1) + some + key(b"1"),
        "CANCEL_WAIT": u8(12),
        "PING": u8(13) + u32(7),
        "QUEUE_PUSH": u8(14) + some + key(b"1"),
        "QUEUE_POP": u8(15) + some,
        "QUEUE_LEN": u8(16) + some,
    }


def older_store_requests():
    """The same for PyTorch 2.0 and earlier, without a greeting."""
    some = key(b"/stranger")
    keys = u64(1) + some
    return {
        "SET": u8(0) + some + key(b"1"),
        "COMPARE_SET": u8(1) + some + key(b"") + key(b"1"),
        "GET": u8(2) + some,
        "ADD": u8(3) + some + i64(1),
        "CHECK": u8(4) + keys,
        "WAIT": u8(5) + keys,
        "GETNUMKEYS": u8(6),
        "WATCH_KEY": u8(7) + some,
        "DELETE_KEY": u8(8) + some,
    }
