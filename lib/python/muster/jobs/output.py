# SPDX-License-Identifier: Apache-2.0
"""The job's output, from a pipe to sys.stdout or sys.stderr: a notebook's cell, a terminal."""
from __future__ import annotations

import codecs
from typing import TextIO

TAIL_MAX = 1 << 16  # characters of the end that are remembered, for the launcher's report


class Output:
    """Bytes in, whole lines out, to a text stream; what is remembered is the end."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._line = ""
        self.tail = ""

    def feed(self, data: bytes) -> None:
        """Writes the lines that are complete now."""
        self._write(self._line + self._decoder.decode(data))

    def close(self) -> None:
        """Writes what is left, at the end of the pipe."""
        self._write(self._line + self._decoder.decode(b"", True), whole=True)

    def _write(self, text: str, whole: bool = False) -> None:
        end = len(text) if whole else text.rfind("\n") + 1
        self._line = text[end:]
        if end:
            self.tail = (self.tail + text[:end])[-TAIL_MAX:]
            self._stream.write(text[:end])
            self._stream.flush()
