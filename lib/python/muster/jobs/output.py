# SPDX-License-Identifier: Apache-2.0
"""The job's output, from a pipe to sys.stdout or sys.stderr: a notebook's cell, a terminal."""
from __future__ import annotations

import codecs
from typing import TextIO

TAIL_MAX = 1 << 16  # characters of the end that are remembered, for the launcher's report


class Output:
    """Bytes in, text out, to a text stream; what is remembered is the end. The text goes out as it
    arrives, since a progress bar ends no line; whole_lines: by lines, where several share a stream.
    """

    def __init__(self, stream: TextIO, whole_lines: bool = False) -> None:
        self._stream = stream
        self._whole_lines = whole_lines
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._line = ""
        self.tail = ""

    def feed(self, data: bytes) -> None:
        """Writes what is complete now: characters, or lines."""
        self._write(self._line + self._decoder.decode(data))

    def close(self) -> None:
        """Writes what is left, at the end of the pipe."""
        self._write(self._line + self._decoder.decode(b"", True), whole=True)

    def _write(self, text: str, whole: bool = False) -> None:
        end = len(text) if whole or not self._whole_lines else text.rfind("\n") + 1
        self._line = text[end:]
        if end:
            self.tail = (self.tail + text[:end])[-TAIL_MAX:]
            self._stream.write(text[:end])
            self._stream.flush()
