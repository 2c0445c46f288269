"""Divide websites into chunks, for a task that is mapped over them."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from airflow_provider_analytics.api.checks import refused


def chunk_websites(websites: Iterable[Mapping[str, Any] | str | int], chunks: int) -> list[list[str]]:
    """Divide websites into chunks by their ids, for ``.expand(websites=...)`` (docs/exclusions.md).

    A website is in the same chunk in every run, independent of other websites. Therefore a ledger per chunk stays
    valid. A chunk may be empty, and chunks differ slightly in size. With another number of chunks, websites move to
    other chunks.

    :param websites: records with ``id``, for example from ``hook.iter_websites()``, or ids.
    :param chunks: number of chunks, 1 or more.
    :return: one list of ids per chunk, each in the order of ``websites``.
    :raises ValueError: if ``chunks`` is less than 1, or a website has no id.
    """
    if isinstance(chunks, bool) or not isinstance(chunks, int) or chunks < 1:
        raise refused("chunks", chunks, "a whole number, 1 or more")
    divided: list[list[str]] = [[] for _ in range(chunks)]
    for website in websites:
        website_id = website.get("id") if isinstance(website, Mapping) else website
        if website_id is None or isinstance(website_id, bool) or not str(website_id).strip():
            raise refused("websites", website, "a record with an id, or an id")
        text = str(website_id).strip()
        # hash() differs between processes.
        number = int(text) if text.isascii() and text.isdigit() else zlib.crc32(text.encode())
        divided[number % chunks].append(text)
    return divided
