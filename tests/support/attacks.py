"""What several attacks have in common."""

from __future__ import annotations

#: What nothing may show as it is: line breaks, escape codes, marks that turn a line, characters without a glyph.
FORGED = "a\nERROR forged\r\x1b[31m\u202egpj\u200b\u2066\xad\x00\u2028b"


def shows_as_it_is(text: str) -> list[str]:
    """Return the characters that would change what a log, a terminal or a page shows."""
    return sorted({one for one in text if one != "\n" and not one.isprintable()})
