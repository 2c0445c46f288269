# SPDX-License-Identifier: Apache-2.0
"""Validation and comparison of domain names."""

from __future__ import annotations

import fnmatch
import re
import unicodedata
from contextlib import suppress
from functools import lru_cache

import idna

from airflow_provider_analytics.api.checks import invalid, is_missing_text
from airflow_provider_analytics.readable import is_plain, readable

_ALLOWED = "a domain name such as www.example.com, without scheme, port, path, or spaces"
_NOT_IN_A_DOMAIN = re.compile(r"[\s\x00-\x20\x7f/\\:@?#%&=,;\"'<>()\[\]{}|^`]")
_GLOB = re.compile(r"[*?\[]")
#: Maximum length of a domain, and of a part of it between two dots in ASCII.
_MAX_LENGTH, _MAX_LABEL = 254, 63
#: Unicode categories of dashes, quotes, and brackets. No domain name contains them, except ASCII's hyphen.
_PUNCTUATION = ("Pd", "Pi", "Pf", "Ps", "Pe")
#: Further characters that look like ASCII punctuation: accents, primes, the minus sign and the ellipsis.
_LOOK_ALIKES = frozenset("\u00b4\u02ba\u2032\u2033\u2035\u2036\u2043\u2212\u2026\uff02\uff07")
#: Scheme, port and end of the path with which a service can store a domain.
_DECORATIONS = ("http://{}", "https://{}", "{}/", "http://{}/", "https://{}/", "{}:80", "{}:443")
_PUNYCODE = "xn--"
#: Maximum number of patterns in an argument, in all websites files, and in a list table for a list field. Each is
#: compared with each website.
MAX_PATTERNS = 1000


def check_domain(domain: object) -> str:
    """Return the domain unchanged.

    :raises ValueError: if it cannot be a domain name.
    """
    if not isinstance(domain, str) or is_missing_text(domain):
        raise invalid("domain", domain, _ALLOWED)
    for character in domain:
        if _is_typographic(character):
            raise invalid(
                "domain", domain, f"{_ALLOWED}. It contains {character!r}, a typographic quote, dash, or bracket"
            )
    if domain.isdecimal():
        raise invalid("domain", domain, f"{_ALLOWED}. A number selects a website by its id")
    if "*" in domain:
        named = domain.replace("*.", "").replace("*", "") or "each domain"
        raise invalid("domain", domain, f"{_ALLOWED}. A pattern is not a website: write {named}")
    # UTS 46 maps other forms of a character, such as a full-width colon, to the one that services compare.
    forms = (domain, _mapped(domain))
    labels = domain.removesuffix(".").split(".")
    # With invisible characters, one domain could look like another one.
    if len(domain) > _MAX_LENGTH or any(map(_NOT_IN_A_DOMAIN.search, forms)) or not is_plain(domain) or not all(labels):
        raise invalid("domain", domain, _ALLOWED)
    for label, encoded in zip(labels, domain_key(domain).split("."), strict=False):
        if len(encoded) > _MAX_LABEL:
            limit = (
                f"A part between two dots has at most {_MAX_LABEL} characters, {readable(label, 80)} has {len(encoded)}"
            )
            raise invalid("domain", domain, f"{_ALLOWED}. {limit}")
        if label.startswith("-") or label.endswith("-"):
            meant = ".".join(part.strip("-") for part in labels)
            raise invalid("domain", domain, f"{_ALLOWED}. No part can start or end with a hyphen: write {meant}")
    return domain


def _is_typographic(character: str) -> bool:
    if character.isascii():
        return False
    return unicodedata.category(character) in _PUNCTUATION or character in _LOOK_ALIKES


def same_domain(first: str, other: str) -> bool:
    """Return whether two domains are equal, as ``Bücher.example.`` and ``xn--bcher-kva.example`` are."""
    return domain_key(first) == domain_key(other)


def spellings(domain: str) -> list[str]:
    """Return the spellings that a service can use for a domain: as given, as A-labels, as U-labels."""
    given = domain.removesuffix(".")
    key = domain_key(domain)
    unicode = ".".join(map(_to_u_label, key.split(".")))
    if key == unicode:
        return [given]
    return list(dict.fromkeys((given, key, unicode)))


def matches(pattern: str, domain: str) -> bool:
    """Return whether a pattern such as ``*bücher.example`` matches a domain, in any spelling of both."""
    return any(map(_expression(pattern).fullmatch, _forms(domain)))


@lru_cache(maxsize=10_000)
def _forms(domain: str) -> frozenset[str]:
    return frozenset((*map(str.lower, spellings(domain)), domain_key(domain)))


@lru_cache(maxsize=10_000)
def _expression(pattern: str) -> re.Pattern[str]:
    globs = {pattern.lower().removesuffix("."), domain_key(pattern)}
    return re.compile("|".join(map(fnmatch.translate, globs)))


def is_pattern(text: str) -> bool:
    """Return whether a text is a pattern such as ``*.example.com``."""
    return _GLOB.search(text) is not None


def might_become(domain: str) -> set[str]:
    """Return the keys of other domains that a service can derive from this one.

    It can drop or add ``www.``, use the older IDNA 2003, which maps ``straße`` to ``strasse``, or add a scheme, the
    usual port or a slash.
    """
    own = domain_key(domain)
    keys = {own}
    with suppress(UnicodeError):
        keys.add(domain_key(domain.encode("idna").decode()))  # Python's codec follows IDNA 2003
    hosts = set(keys)
    for key in keys:
        hosts |= {key.removeprefix("www."), f"www.{key}"}
    derived = set(hosts)
    for host in hosts:
        derived.update(decoration.format(host) for decoration in _DECORATIONS)
    return derived - {own}


def domain_key(domain: str) -> str:
    """Normalize a domain, so that equal domains compare equal: A-labels in lower case, without trailing dots.

    A scheme, a port and a path, which some services store with a domain, are kept: another path is another website.

    Labels are mapped by UTS 46 (non-transitional: ``straße`` is not ``strasse``) and encoded by IDNA 2008. A label that
    IDNA rejects, such as one with an emoji, is encoded without its rules. A pattern is compared in lower case.
    """
    domain = domain.lower().rstrip(".")
    if domain.isascii():
        return domain
    return ".".join(map(_to_a_label, _mapped(domain).split("."))).rstrip(".")


def _mapped(domain: str) -> str:
    """Return a domain as UTS 46 maps it; unchanged if it has characters that are not assigned."""
    with suppress(idna.IDNAError):
        return idna.uts46_remap(domain, std3_rules=False)
    return domain


def _to_a_label(label: str) -> str:
    try:
        return idna.alabel(label).decode("ascii")
    except idna.IDNAError:
        label = label.lower()
    if label.isascii() or _GLOB.search(label):
        return label
    with suppress(UnicodeError):
        return _PUNYCODE + label.encode("punycode").decode("ascii")
    return label


def _to_u_label(label: str) -> str:
    try:
        return idna.ulabel(label)
    except idna.IDNAError:
        pass
    with suppress(UnicodeError):
        if label.startswith(_PUNYCODE):
            return label.removeprefix(_PUNYCODE).encode("ascii").decode("punycode")
    return label
