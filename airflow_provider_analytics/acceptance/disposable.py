# SPDX-License-Identifier: Apache-2.0
"""Disposable websites: which ones this tool created, and their removal.

By default, the domain itself shows it: nobody else uses ``acceptance-<16 random hexadecimal digits>.example.invalid``,
and the top-level domain ``invalid`` exists for no real website (RFC 2606). A domain that the user gave could also be a
real one, so a website with such a domain counts only if a local file has its service, domain and id.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from airflow_provider_analytics.api.dialect import Record
from airflow_provider_analytics.api.domains import may_become, same_domain

#: Beginning of the domains, which finds them in a search.
PREFIX = "acceptance-"
_RANDOM_BYTES = 8
#: The domains, also as services that add a scheme, a port or a slash store them.
_DOMAIN = re.compile(
    rf"(https?://)?(www\.)?{PREFIX}[0-9a-f]{{{2 * _RANDOM_BYTES}}}\.example\.invalid(:[0-9]+)?/?", re.IGNORECASE
)


def new_domain() -> str:
    """Return the domain of a new disposable website."""
    return f"{PREFIX}{secrets.token_hex(_RANDOM_BYTES)}.example.invalid"


def is_disposable(domain: object) -> bool:
    """Return whether a domain has exactly the form of :func:`new_domain`."""
    return isinstance(domain, str) and _DOMAIN.fullmatch(domain) is not None


def is_domain_of(record: Record, domain: str) -> bool:
    """Return whether a record has a domain, as given or as the service may write it."""
    shown = record.get("domain")
    return isinstance(shown, str) and (same_domain(shown, domain) or shown.lower().rstrip(".") in may_become(domain))


@dataclass(frozen=True)
class CreatedWebsite:
    """A website of a domain that the user gave.

    :param base_url: its service.
    :param domain: its domain.
    :param website_id: its id; empty as long as the create has no response.
    """

    base_url: str
    domain: str
    website_id: str = ""


class CreatedWebsites:
    """The file with the created websites whose domains the user gave.

    :param path: path of the file; None: nothing is recorded.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path

    def of(self, base_url: str) -> list[CreatedWebsite]:
        """Return the recorded websites of a service."""
        return [created for created in self._read() if created.base_url == base_url]

    def add(self, created: CreatedWebsite) -> None:
        """Record a website, in place of an earlier one of its domain."""
        self._write([*self._others(created), created])

    def remove(self, created: CreatedWebsite) -> None:
        """Forget a website that no longer exists."""
        self._write(self._others(created))

    def _others(self, created: CreatedWebsite) -> list[CreatedWebsite]:
        place = (created.base_url, created.domain)
        return [recorded for recorded in self._read() if (recorded.base_url, recorded.domain) != place]

    def check_writable(self) -> None:
        """Raise :class:`ValueError` if the file cannot be written."""
        if self.path is None:
            return
        try:
            self._write(self._read())
        except OSError as error:
            raise ValueError(f"The created website cannot be recorded in {self.path}: {error.strerror}") from None

    def _read(self) -> Iterator[CreatedWebsite]:
        if self.path is None:
            return
        with suppress(FileNotFoundError):
            text = self.path.read_text(encoding="utf-8")
            try:
                found = [CreatedWebsite(**entry) for entry in json.loads(text)]
            except (TypeError, ValueError):
                problem = f"{self.path} is not a list of created websites"
                raise ValueError(f"{problem}. Look for leftovers in the service, and remove the file.") from None
            yield from found

    def _write(self, recorded: Iterable[CreatedWebsite]) -> None:
        if self.path is None:
            return
        entries = [asdict(created) for created in recorded]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_name(f"{self.path.name}.new")
        temporary.write_text(json.dumps(entries), encoding="utf-8")
        temporary.replace(self.path)
