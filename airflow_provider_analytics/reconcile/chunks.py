# SPDX-License-Identifier: Apache-2.0
"""Divide websites into chunks, for a task that is mapped over them."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from airflow_provider_analytics.api.checks import whole_number


def chunk_websites(websites: Iterable[Mapping[str, Any] | str | int], chunks: int) -> list[list[str]]:
    """Divide websites into chunks by their ids, for ``.expand(websites=...)`` (docs/exclusions.md).

    A website is in the same chunk in every run, independent of other websites. A chunk may be empty, and chunks differ
    slightly in size. With another number of chunks, websites move to other chunks.

    :param websites: records with ``id``, for example from ``hook.iter_websites()``, or ids.
    :param chunks: number of chunks, 1 or more.
    :return: one list of ids per chunk, each in the order of ``websites``.
    :raises ValueError: if ``chunks`` is less than 1.
    """
    divided: list[list[str]] = [[] for _ in range(whole_number("chunks", chunks, at_least=1))]
    for website in websites:
        text = str(website["id"] if isinstance(website, Mapping) else website)
        # hash() differs between processes.
        number = int(text) if text.isdecimal() else zlib.crc32(text.encode())
        divided[number % len(divided)].append(text)
    return divided
