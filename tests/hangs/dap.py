# SPDX-License-Identifier: Apache-2.0
"""A minimal client of the Debug Adapter Protocol, which VS Code and PyCharm use with debugpy."""
import json
import socket

DEADLINE = 60.0


class Client:
    """Connected to debugpy on this port."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE)
        self.stream = self.socket.makefile("rb")
        self.number = 0
        self.answers = {}
        self.events = []

    def send(self, command, **arguments):
        self.number += 1
        body = json.dumps({"seq": self.number, "type": "request", "command": command,
                           "arguments": arguments}).encode()
        self.socket.sendall(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        return self.number

    def receive(self):
        size = 0
        while (line := self.stream.readline().strip()):
            size = int(line.split(b":")[1])
        message = json.loads(self.stream.read(size))
        if message["type"] == "response":
            self.answers[message["request_seq"]] = message
        elif message["type"] == "event":
            self.events.append(message)

    def answer(self, number):
        while number not in self.answers:
            self.receive()
        answer = self.answers.pop(number)
        assert answer["success"], answer
        return answer.get("body", {})

    def ask(self, command, **arguments):
        return self.answer(self.send(command, **arguments))

    def event(self, name):
        """The next event of this kind."""
        while not any(event["event"] == name for event in self.events):
            self.receive()
        at = [event["event"] for event in self.events].index(name)
        return self.events.pop(at).get("body", {})

    def attach(self, file, line):
        """With a breakpoint at this line; returns the frame that has stopped there."""
        self.ask("initialize", adapterID="muster", linesStartAt1=True, pathFormat="path")
        attached = self.send("attach", justMyCode=False, subProcess=False)
        self.event("initialized")
        self.ask("setBreakpoints", source={"path": file}, breakpoints=[{"line": line}])
        self.ask("configurationDone")
        self.answer(attached)
        thread = self.event("stopped")["threadId"]
        return self.ask("stackTrace", threadId=thread)["stackFrames"][0]

    def value(self, text, frame):
        return self.ask("evaluate", expression=text, frameId=frame["id"])["result"]

    def detach(self):
        self.ask("disconnect", terminateDebuggee=False)
        self.close()

    def close(self):
        self.stream.close()
        self.socket.close()
