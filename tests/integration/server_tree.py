# SPDX-License-Identifier: Apache-2.0
"""A worker like an inference server: a front end; an engine in its own process that forks helpers,
one of them in a separate session; and a daemon that left its parent. All of them ignore requests to
exit, and none reacts when another one dies. Arguments: the folder in which each creates a file once
it is up, and how the engine is started: spawn or fork."""

import multiprocessing
import os
import signal
import socket
import sys

MEMBERS = ("front", "engine", "helper", "session", "daemon")


def up(folder, name):
    turn, rank = os.environ["TORCHELASTIC_RESTART_COUNT"], os.environ["RANK"]
    path = os.path.join(folder, f"{turn}-{rank}-{name}")
    with open(path + ".new", "w", encoding="ascii") as file:
        file.write(str(os.getpid()))
    os.rename(path + ".new", path)


def stay(folder, name):
    for signo in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signo, signal.SIG_IGN)
    up(folder, name)
    while True:
        signal.pause()


def fork(then):
    pid = os.fork()
    if pid == 0:
        then()
        os._exit(0)
    return pid


def engine(folder):
    fork(lambda: stay(folder, "helper"))

    def in_a_session():
        os.setsid()
        stay(folder, "session")

    fork(in_a_session)

    def daemonize():
        os.setsid()
        fork(lambda: stay(folder, "daemon"))

    os.waitpid(fork(daemonize), 0)
    stay(folder, "engine")


def serve():
    """On each reserved port: a server that was not killed would still hold it."""
    servers = []
    for port in filter(None, os.environ.get("MUSTER_PORTS", "").split(",")):
        server = socket.socket()
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", int(port)))
        server.listen()
        servers.append(server)
    return servers


def main():
    folder, how = sys.argv[1:]
    servers = serve() if os.environ["LOCAL_RANK"] == "0" else []
    multiprocessing.get_context(how).Process(target=engine, args=(folder,)).start()
    stay(folder, "front")
    del servers


if __name__ == "__main__":
    main()
