# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium that a test controls over two pipes (the DevTools protocol: JSON messages,
each followed by a zero byte). Standard library only."""

import base64
import json
import os
import select
import shutil
import subprocess
import time

from harness import DEADLINE

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    def __init__(self, folder):
        to_read, self.to = os.pipe()
        self.source, to_write = os.pipe()
        self.process = subprocess.Popen(
            ["sh", "-c", f'exec "$@" 3<&{to_read} 4>&{to_write}', "sh", PROGRAM, "--headless=new",
             "--no-sandbox", "--disable-gpu", "--no-first-run", f"--user-data-dir={folder}",
             "--remote-debugging-pipe", "about:blank"],
            pass_fds=(to_read, to_write), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.number, self.rest, self.said = 0, b"", []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = None
        self.session = self.call("Target.attachToTarget", targetId=target,
                                 flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if getattr(self, "session", None):
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.number:
                assert "result" in answer, (method, answer)
                return answer["result"]
            self.note(answer)

    def read(self):
        give_up = time.monotonic() + DEADLINE
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.source], [], [], give_up - time.monotonic())
            assert ready, "the browser does not answer"
            part = os.read(self.source, 1 << 16)
            assert part, "the browser has ended"
            self.rest += part
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def note(self, event):
        """Exceptions on the page, and errors reported by the browser itself."""
        if event["method"] == "Runtime.exceptionThrown":
            self.said.append(event["params"]["exceptionDetails"])
        elif event["method"] == "Log.entryAdded":
            entry = event["params"]["entry"]
            if entry["level"] == "error" and entry["source"] != "network":
                self.said.append(entry["text"])

    def open(self, url, width=1200, height=1400):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)
        self.call("Page.navigate", url=url)

    def ask(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return answer["result"].get("value")

    def colours(self, scheme):
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def close(self):
        self.process.terminate()
        self.process.wait()
        os.close(self.to)
        os.close(self.source)
