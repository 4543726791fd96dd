# SPDX-License-Identifier: Apache-2.0
"""Copies the job's output from a pipe to sys.stdout or sys.stderr (a notebook cell, a terminal)."""
from __future__ import annotations

import codecs
from typing import TextIO

TAIL_MAX = 1 << 16  # number of trailing characters to keep, for the launcher's report


class Output:
    """Decodes bytes into a text stream and keeps the tail. Writes text as it arrives, because a
    progress bar does not end its line. With whole_lines it writes line by line, for outputs that
    share a stream.
    """

    def __init__(self, stream: TextIO, whole_lines: bool = False) -> None:
        self._stream = stream
        self._whole_lines = whole_lines
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._line = ""
        self.tail = ""

    def feed(self, data: bytes) -> None:
        """Writes all complete characters, or only complete lines with whole_lines."""
        self._write(self._line + self._decoder.decode(data))

    def close(self) -> None:
        """Writes the remaining text. Call when the pipe has reached EOF."""
        self._write(self._line + self._decoder.decode(b"", True), whole=True)

    def _write(self, text: str, whole: bool = False) -> None:
        end = len(text) if whole or not self._whole_lines else text.rfind("\n") + 1
        self._line = text[end:]
        if end:
            self.tail = (self.tail + text[:end])[-TAIL_MAX:]
            self._stream.write(text[:end])
            self._stream.flush()
