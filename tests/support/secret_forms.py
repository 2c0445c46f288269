# SPDX-License-Identifier: Apache-2.0
"""Forms of a secret in texts."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable
from urllib.parse import quote, quote_plus

#: Name of a form to its function.
FORMS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "JSON": json.dumps,
    "JSON, not ASCII": lambda text: json.dumps(text, ensure_ascii=False),
    "JSON as PHP writes it": lambda text: json.dumps(text).replace("/", "\\/"),
    "HTML": html.escape,
    "HTML, quotes as PHP writes them": lambda text: html.escape(text).replace("&#x27;", "&#039;"),
    "percent": lambda text: quote(text, safe=""),
    "percent, as a path": quote,
    "percent as browsers write it": lambda text: quote(text, safe="!'()*~"),
    "form": quote_plus,
    "percent as .NET writes it": lambda text: re.sub("%..", lambda escape: escape[0].lower(), quote(text, safe="")),
    "form as .NET writes it": lambda text: re.sub("%..", lambda escape: escape[0].lower(), quote_plus(text)),
    "Basic": lambda text: base64.b64encode(f":{text}".encode()).decode(),
    "Basic, as the user": lambda text: base64.b64encode(f"{text}:".encode()).decode().rstrip("="),
}


def leaked(text: str, secret: str) -> list[str]:
    """Return the forms of a secret in a text."""
    return [name for name, write in FORMS.items() if write(secret).strip('"') in text]


def parts_in(text: str, secret: str) -> list[str]:
    """Return the parts of a secret, of six characters each, that are in a text."""
    return [secret[at : at + 6] for at in range(8, len(secret) - 6) if secret[at : at + 6] in text]
