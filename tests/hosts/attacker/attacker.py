#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attacks a job, whose ports it reads from its input as JSON: {"job": ID, "rounds": [[ADDRESS,
PORT, [HEX]]], "stores": [[ADDRESS, PORT]], "user": UID or null}. Prints one line for each attack:
refused or ACCEPTED, a tab, the attack's name."""
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor

import attacks

AT_ONCE = 16


def doors_of(given):
    for address, port, sessions in given["rounds"]:
        door = attacks.Door(address, port, given["job"],
                            [bytes.fromhex(session) for session in sessions])
        for name, attack in attacks.on_rounds(door):
            yield f"rounds of {address}: {name}", attack
    for address, port in given["stores"]:
        for name, attack in attacks.on_store(attacks.Door(address, port, given["job"])):
            yield f"store of {address}: {name}", attack


def main():
    given = json.load(sys.stdin)
    "".encode("idna")  # connect() loads this; another user may not have access to Python's folder
    if given["user"] is not None:
        os.setgroups([])
        os.setgid(given["user"])
        os.setuid(given["user"])
    held = [attacks.crowd(attacks.Door(address, port, given["job"]))
            for address, port, _ in given["rounds"]]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        named = list(doors_of(given))
        outcomes = threads.map(lambda each: each[1](), named)
        for (name, _), is_refused in zip(named, outcomes):
            print("refused" if is_refused else "ACCEPTED", name, sep="\t", flush=True)
    del held


if __name__ == "__main__":
    main()
