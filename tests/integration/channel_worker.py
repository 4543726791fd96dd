# SPDX-License-Identifier: Apache-2.0
"""A worker that talks to its agent over a plain socket, like a program in any language. Its first
argument selects what it does. It appends what it receives to $CHANNEL_DIR/heard, as lines of
JSON."""

import json
import os
import signal
import socket
import subprocess
import sys
import time

FOLDER = os.environ["CHANNEL_DIR"]
RANK = int(os.environ.get("RANK", "-1"))
DEADLINE = 60.0


def note(**what):
    line = json.dumps({"rank": RANK, "epoch": os.environ.get("MUSTER_EPOCH"),
                       "at": time.monotonic(), **what}) + "\n"
    file = os.open(f"{FOLDER}/heard", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, line.encode())
    os.close(file)


def up(name):
    open(f"{FOLDER}/{name}", "w").close()


def connect():
    """A connection and its lines, the first of which has been read."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.connect("\0" + os.environ["MUSTER_AGENT"])  # blocks while the queue is full
    sock.settimeout(DEADLINE)
    return sock, sock.makefile("rb")


def hello():
    sock, lines = connect()
    return sock, lines, json.loads(lines.readline())


def send(sock, **frame):
    sock.sendall(json.dumps(frame).encode() + b"\n")


def until_closed(lines):
    """The remaining lines."""
    try:
        return [json.loads(line) for line in lines]
    except ConnectionResetError:
        return []


def wait_for(name):
    while not os.path.exists(f"{FOLDER}/{name}"):
        time.sleep(0.005)


# -- modes -------------------------------------------------------------------------------------

def greet():
    """Each rank reports which rank the agent took it for; in the first round rank 1 fails."""
    note(hello=hello()[2])
    up(f"greeted{RANK}")
    if RANK == 1 and os.environ["MUSTER_EPOCH"] == "1":
        for rank in range(int(os.environ["WORLD_SIZE"])):
            wait_for(f"greeted{rank}")
        sys.exit(3)


def talk():
    sock, _, _ = hello()
    send(sock, type="event", data={"saved": RANK, "text": "a\x1b[2J"})
    if RANK == 1:
        send(sock, type="unhealthy", why="loss is nan", rank=0, local_rank=0)
        send(sock, type="unhealthy", why="loss is nan")
        send(sock, type="healthy")
    send(sock, type="ready", epoch=1)
    send(sock, type="progress", step=7)
    os._exit(0)  # immediately, because messages must not be lost


def last_words():
    """Rank 0 sends many messages and fails immediately, except in the second round."""
    sock, _, _ = hello()
    if RANK == 0 and os.environ["MUSTER_EPOCH"] == "1":
        for number in range(1200):
            send(sock, type="event", data=number)
        os._exit(3)
    send(sock, type="event", data="well")


def relatives():
    """A child and an orphan speak for their worker. A process that has also left the worker's group
    belongs to no worker."""
    me = [sys.executable, __file__, "relative"]
    subprocess.run([*me, "child"], check=True)
    for name in ("orphan", "stranger"):
        subprocess.run([*me, "parent of " + name], check=True)
        wait_for(f"{name}{RANK}")


def relative():
    who = sys.argv[2]
    if who.startswith("parent of "):
        name = who[len("parent of "):]
        subprocess.Popen([sys.executable, __file__, "relative", name, str(os.getpid())],
                         start_new_session=name == "stranger")
        return
    if who != "child":
        while os.getppid() == int(sys.argv[3]):
            time.sleep(0.001)
    note(who=who, first=hello()[2])
    if who != "child":
        up(f"{who}{RANK}")


def outlive():
    """A worker and two of its child processes; only one of these may outlive the job."""
    send(hello()[0], type="outlive")  # has no effect, because this is a worker
    for name in ("outliving", "left"):
        subprocess.Popen([sys.executable, __file__, "outlives", name], start_new_session=True,
                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL)
        wait_for(name)
    os.kill(os.getpid(), signal.SIGSTOP)


def outlives():
    who = sys.argv[2]
    sock, lines, _ = hello()
    if who == "outliving":
        send(sock, type="outlive")
        send(sock, type="subscribe")
        lines.readline()  # the agent has read both
    note(who=who, pid=os.getpid())
    up(who)
    signal.pause()


def flood():
    """Rank 0 exceeds the rate limit, on one connection and on many; rank 1 sends one message."""
    if RANK == 1:
        wait_for("flooding")
        sock, _, _ = hello()
        send(sock, type="event", data="in the middle of it")
        up("told")
        wait_for("flooded")
        return
    sock, _ = connect()
    sock.setblocking(False)
    line = b'{"type":"progress","step":1}\n' * 1000
    sent, tries = 0, 0
    while not os.path.exists(f"{FOLDER}/told") or tries < 200:
        tries += 1
        try:
            sent += sock.send(line)
        except BlockingIOError:
            up("flooding")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as another:
            another.connect("\0" + os.environ["MUSTER_AGENT"])
    note(sent=sent)
    up("flooded")


def lies():
    """Each of these ends its own connection, and nothing else."""
    for words in (b"rubbish\n", b"x" * 9000, b'{"type":"progress","step":-1}\n',
                  b'{"type":"event","data":' + b"[" * 5000 + b"\n", b"\x00\xff\n", b"{}\n"):
        sock, lines, _ = hello()
        sock.sendall(words)
        note(said=words[:12].decode("latin1"), heard=until_closed(lines))
    # Dies in the middle of a frame, with the connection open.
    sock, _, _ = hello()
    sock.sendall(b'{"type":"event","data":"ha')
    if RANK == 0:
        os._exit(0)
    sock2, _, _ = hello()
    send(sock2, type="event", data="still here")


def many():
    """More connections than one worker may have."""
    kept = [hello() for _ in range(20)]
    note(kinds=[frame["type"] for _, _, frame in kept])


def another_user():
    """A child of the worker with a different user id."""
    child = os.fork()
    if child == 0:
        os.setgid(65534)
        os.setuid(65534)
        _, lines, first = hello()
        os.write(1, json.dumps({"first": first, "rest": until_closed(lines)}).encode() + b"\n")
        os._exit(0)
    os.waitpid(child, 0)


def subscribe():
    """Records the feed. A worker that is asked to stop exits when the test allows it."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sock, lines, _ = hello()
    send(sock, type="subscribe")
    sock.settimeout(None)
    for line in lines:
        frame = json.loads(line)
        note(pid=os.getpid(), frame=frame)
        if frame["type"] == "stop":
            break
        if frame["type"] == "round":
            up(f"up{frame['epoch']}.{RANK}")
            if os.path.exists(f"{FOLDER}/last{frame['epoch']}"):
                sys.exit(0)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
