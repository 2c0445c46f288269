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
_AT_LINE_START = re.compile(r"^(\s*):(?=:)")


def _plain_line(line: str) -> str:
    """Return a line in which the workflow commands of GitHub are escaped in Python syntax."""
    return _AT_LINE_START.sub(r"\1\\x3a", line).replace("##[", _ESCAPED)


class PlainLines:
    """A text stream that escapes workflow commands. It writes whole lines.

    :param stream: the stream to write to.
    """

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        #: The start of a line whose end is not known yet.
        self._line = ""

    def write(self, text: str) -> int:
        """Write the lines that end in a text."""
        *lines, self._line = f"{self._line}{text}".split("\n")
        for line in lines:
            self.stream.write(f"{_plain_line(line)}\n")
        return len(text)

    def end(self) -> None:
        """Write the last line, which has no line break."""
        self.stream.write(_plain_line(self._line))
        self._line = ""

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the stream."""
        return getattr(self.stream, name)


@contextmanager
def plain_output() -> Iterator[None]:
    """Escape workflow commands in the standard streams, and characters that the terminal cannot print."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    output, errors = PlainLines(sys.stdout), PlainLines(sys.stderr)
    try:
        with redirect_stdout(output), redirect_stderr(errors):
            yield
    finally:
        output.end()
        errors.end()


def write_commands(text: str) -> None:
    """Write workflow commands to standard output, one per line, in which all values are escaped."""
    stream: Any = sys.stdout
    while isinstance(stream, PlainLines):
        stream = stream.stream
    stream.write(text.replace("##[", _ESCAPED))
