"""Validation and comparison of domain names."""

from __future__ import annotations

import fnmatch
import re
from contextlib import suppress

import idna

from airflow_provider_analytics.api.checks import refused
from airflow_provider_analytics.readable import is_plain

_ALLOWED = "a domain name such as www.example.com, without scheme, port, path or spaces"
_NOT_IN_A_DOMAIN = re.compile(r"[\s\x00-\x20\x7f/\\:@?#%&=,;\"'<>()\[\]{}|^`]")
_AROUND_A_DOMAIN = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://|(:[0-9]*)?(/.*)?$", re.DOTALL)
_GLOB = re.compile(r"[*?\[]")
_MAX_LENGTH = 254


def check_domain(domain: object) -> str:
    """Return the domain unchanged.

    :raises ValueError: if it cannot be a domain name.
    """
    if not isinstance(domain, str) or domain == "None":  # an empty template renders to "None"
        raise refused("domain", domain, _ALLOWED)
    labels = domain.removesuffix(".").split(".")
    # With invisible characters, one domain could look like another one.
    if len(domain) > _MAX_LENGTH or _NOT_IN_A_DOMAIN.search(domain) or not is_plain(domain) or not all(labels):
        raise refused("domain", domain, _ALLOWED)
    return domain


def same_domain(one: str, other: str) -> bool:
    """Return whether two domains are equal, as ``Bücher.example.`` and ``xn--bcher-kva.example`` are."""
    return domain_key(one) == domain_key(other)


def spellings(domain: str) -> list[str]:
    """Return the spellings that a service may use for a domain: as given, as A-labels, as U-labels."""
    given, key = domain.removesuffix("."), domain_key(domain)
    unicode = key
    with suppress(idna.IDNAError):
        unicode = idna.decode(key)
    return [given] if key == unicode else list(dict.fromkeys((given, key, unicode)))


def matches(pattern: str, domain: str) -> bool:
    """Return whether a glob such as ``*bücher.example`` matches a domain, in any spelling of both."""
    forms = {*map(str.lower, spellings(domain)), domain_key(domain)}
    globs = {pattern.lower().removesuffix("."), domain_key(pattern)}
    return any(fnmatch.fnmatchcase(form, glob) for form in forms for glob in globs)


def is_pattern(text: str) -> bool:
    """Return whether a text is a glob such as ``*.example.com``."""
    return _GLOB.search(text) is not None


def may_become(domain: str) -> set[str]:
    """Return the keys of other domains that a service may derive from this one.

    It may drop or add ``www.``, or use the older IDNA 2003, which maps ``straße`` to ``strasse``.
    """
    own = domain_key(domain)
    keys = {own}
    with suppress(UnicodeError):
        keys.add(domain_key(domain.encode("idna").decode()))  # Python's codec follows IDNA 2003
    return {other for key in keys for other in (key, key.removeprefix("www."), f"www.{key}")} - {own}


def domain_key(domain: str) -> str:
    """Normalize a domain, so that equal domains compare equal: A-labels in lower case, without trailing dots.

    A scheme, a port and a path, which some services store with a domain, are removed.

    Labels are mapped by UTS 46 (non-transitional: ``straße`` is not ``strasse``) and encoded by IDNA 2008. A label that
    IDNA rejects, such as one with an underscore or a glob, is compared in lower case.
    """
    if ":" in domain or "/" in domain:
        domain = _AROUND_A_DOMAIN.sub("", domain)
    domain = domain.lower().rstrip(".")
    if domain.isascii():
        return domain
    with suppress(idna.IDNAError):
        domain = idna.uts46_remap(domain, std3_rules=False)
    return ".".join(map(_to_a_label, domain.split("."))).rstrip(".")


def _to_a_label(label: str) -> str:
    try:
        return idna.alabel(label).decode("ascii")
    except idna.IDNAError:
        return label.lower()
