# SPDX-License-Identifier: Apache-2.0
"""The standard streams of a command, whose lines never contain commands to the system that runs the pipeline.

GitHub executes lines of a job's output that start with ``::``, or contain ``##[``. File names, domains and entries can
contain these, and can be the first text of a line.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any

_ESCAPED = r"##\x5b"
_AT_LINE_START = re.compile(r"^(\s*):(?=:)", re.MULTILINE)


def plain_lines(text: str) -> str:
    """Return a text in which the workflow commands of GitHub are escaped in Python syntax."""
    return _AT_LINE_START.sub(r"\1\\x3a", text).replace("##[", _ESCAPED)


class PlainLines:
    """A text stream that escapes workflow commands.

    :param stream: the stream to write to.
    """

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        #: The blanks at the start of the current line; None after other text.
        self._blanks: str | None = ""

    def write(self, text: str) -> int:
        """Write a text, which might be a part of a line."""
        if self._blanks is None:
            first, separator, rest = text.partition("\n")
            self.stream.write(first.replace("##[", _ESCAPED) + separator + plain_lines(rest))
        else:
            self.stream.write(plain_lines(self._blanks + text)[len(self._blanks) :])
        _, line_break, last = text.rpartition("\n")
        if line_break:
            self._blanks = ""  # the text after the last line break starts a line
        if self._blanks is not None:
            self._blanks += last
            if self._blanks.strip():
                self._blanks = None
        return len(text)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the stream."""
        return getattr(self.stream, name)


@contextmanager
def plain_output() -> Iterator[None]:
    """Escape workflow commands in the standard streams, and characters that the terminal cannot print."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    with redirect_stdout(PlainLines(sys.stdout)), redirect_stderr(PlainLines(sys.stderr)):
        yield


def write_commands(text: str) -> None:
    """Write workflow commands to standard output, one per line, in which all values are escaped."""
    stream: Any = sys.stdout
    while isinstance(stream, PlainLines):
        stream = stream.stream
    stream.write(text.replace("##[", _ESCAPED))
