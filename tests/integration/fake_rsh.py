#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A remote shell for tests: `fake_rsh.py [OPTION]... HOST COMMAND` runs COMMAND in a shell on this
machine, in a different folder and with few variables, like sshd. It consists of two processes, like
ssh and sshd: if the client is killed, the command's standard input is closed, but nothing else is
killed."""

import os
import subprocess
import sys
import threading


def main():
    *_, target, command = sys.argv[1:]
    host = target.rpartition("@")[2]
    folder = os.environ.get("FAKE_RSH_DIR", "/")
    with open(os.path.join(folder, "calls"), "a", encoding="utf-8") as calls:
        calls.write(f"{os.getpid()} {target} {command}\n")
    if host.startswith("down"):
        print("Pseudo-terminal will not be allocated.", file=sys.stderr)
        print(f"ssh: connect to host {host} port 22: No route to host", file=sys.stderr)
        return 255
    if host.startswith("denied"):
        print(f"{target}: Permission denied (publickey).", file=sys.stderr)
        return 255
    if host.startswith("later"):  # later2: it is up at the third attempt
        with open(os.path.join(folder, "calls"), encoding="utf-8") as calls:
            attempts = [line.split()[1] for line in calls].count(target)
        if attempts <= int(host.removeprefix("later")):
            print(f"ssh: Could not resolve hostname {host}: Name or service not known",
                  file=sys.stderr)
            return 255
    if host.startswith("silent"):
        sys.stdin.read()
        return 255
    keep = ("PATH", "HOME", "MUSTER_TEST_TOKEN", "ASAN_OPTIONS", "FAKE_RSH_DIR")
    env = {name: os.environ[name] for name in keep if name in os.environ}
    env["FAKE_HOST"] = host
    noise = "echo 'welcome to this machine'; " if host.startswith("noisy") else ""
    # The pipe between them replaces the network connection: only its end is noticed.
    with subprocess.Popen(["/bin/sh", "-c", noise + command], stdin=subprocess.PIPE, env=env,
                          cwd="/", start_new_session=True) as server:
        threading.Thread(target=copy_input, args=(server,), daemon=True).start()
        code = server.wait()
        os._exit(code if code >= 0 else 255)  # the thread may wait for input forever


def copy_input(server):
    while data := os.read(0, 65536):
        try:
            server.stdin.write(data)
            server.stdin.flush()
        except BrokenPipeError:
            return
    server.stdin.close()


if __name__ == "__main__":
    sys.exit(main())
