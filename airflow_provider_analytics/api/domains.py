"""Validation and comparison of domain names."""

from __future__ import annotations

import re

from airflow_provider_analytics.api.checks import refused

_ALLOWED = "a domain name such as www.example.com, without scheme, port, path or spaces"
_NOT_IN_A_DOMAIN = re.compile(r"[\s\x00-\x20\x7f/\\:@?#%&=,;\"'<>()\[\]{}|^`]")
_MAX_LENGTH = 254


def check_domain(domain: object) -> str:
    """Return the domain unchanged.

    :raises ValueError: if it cannot be a domain name.
    """
    if not isinstance(domain, str) or domain == "None":  # an empty template renders to the text None
        raise refused("domain", domain, _ALLOWED)
    labels = domain.removesuffix(".").split(".")
    if len(domain) > _MAX_LENGTH or _NOT_IN_A_DOMAIN.search(domain) or not all(labels):
        raise refused("domain", domain, _ALLOWED)
    return domain


def same_domain(one: str, other: str) -> bool:
    """Return whether two domains are the same, ignoring case and a trailing dot."""
    return domain_key(one) == domain_key(other)


def domain_key(domain: str) -> str:
    """Normalise a domain so that equal domains compare equal."""
    return domain.casefold().removesuffix(".")
