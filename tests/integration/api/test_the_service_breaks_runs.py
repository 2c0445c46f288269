"""A service that answers what makes others raise, hang or run out of memory: a run goes on, or ends with an error."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attacks import shows_as_it_is
from fixture_types import Execute, Serving
from hypothesis import given
from hypothesis import strategies as st
from raw_server import http
from wire_client import client_of, error_of, served

from airflow_provider_analytics.api import dialect
from airflow_provider_analytics.api.redaction import without_secrets
from airflow_provider_analytics.exceptions import AnalyticsError
from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator
from airflow_provider_analytics.operators.websites import GetWebsiteOperator
from airflow_provider_analytics.readable import Redactor, code_span, readable

#: What raised, or took long, in one library or another.
HOSTILE = {
    "a number of 5,000 digits": f"&#{'9' * 5000};",
    "nested": "&amp;" * 3000,
    "half of a pair": "\ud800\\ud800\\udc00%ed%a0%80",
    "backslashes": "\\" * 20_000,
    "percent": "%" * 20_000,
    "blanks": " " * 20_000 + "\n",
    "invisible": "\u200b" * 20_000,
}

texts = st.one_of(
    st.text(st.characters(categories=None)),
    st.text("&#x;0123456789abcdefu\\%+ \n\ud800", max_size=200),
    st.sampled_from(sorted(HOSTILE)).map(HOSTILE.__getitem__),
)


@given(st.one_of(texts, texts.map(lambda text: text.encode("utf-8", "replace")), st.binary()), st.booleans())
def test_no_text_makes_it_raise(text: str | bytes, is_part: bool) -> None:
    secrets = Redactor()
    secrets.add("a secret & more")
    for limit in (None, 200):
        for breaks in ("escape", "fold", "keep"):
            shown = readable(text, limit, breaks=breaks, is_part=is_part)
            assert shows_as_it_is(shown) == []
            assert limit is None or len(shown) <= limit
            assert breaks == "keep" or "\n" not in shown
    if isinstance(text, str):
        assert shows_as_it_is(code_span(text)) == []
        secrets.finds(text)


# No database can store half of a pair.
@pytest.mark.parametrize("hostile", [name for name in HOSTILE if name != "half of a pair"])
def test_no_text_of_a_record_stops_a_snapshot(hostile: str, serving: Serving, execute: Execute, tmp_path: Path) -> None:
    records = [
        {"id": 2, "domain": "b.example", "note": HOSTILE[hostile], "exclude_params": HOSTILE[hostile]},
        {"id": 1, "domain": "a.example", "note": "R&D 100%"},
    ]
    with serving(*records):
        taken = execute(SnapshotWebsitesOperator, base_path=str(tmp_path), report=True)
        returned = execute(GetWebsiteOperator, website_id=2)
    assert taken["count"] == 2
    assert returned["note"].encode("utf-8", "replace") == HOSTILE[hostile].encode("utf-8", "replace")


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("hostile", HOSTILE)
def test_no_text_of_an_error_hides_the_error(hostile: str, status: int) -> None:
    text = HOSTILE[hostile].encode("utf-8", "replace")
    for body in (text, b"<title>" + text + b"</title>", json.dumps({"message": HOSTILE[hostile]}).encode()):
        error_of(http(status, body, kind="text/html"))


def compressed(body: bytes, tail: bytes) -> bytes:
    return http(200, gzip.compress(body) + tail, headers=[("Content-Encoding", "gzip")])


def peak_of(call: Callable[[], object]) -> int:
    """Return the most memory in bytes that a call takes."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("tail", [b"\0" * 100, b"anything", b"\n", b"\0" * 20_000_000], ids=len)
def test_what_follows_the_end_of_a_stream_is_ignored_and_not_kept(tail: bytes) -> None:
    with served(compressed(b'{"id": 7}', tail=tail)) as (client, _):
        # The server of the test keeps its own copies.
        assert peak_of(lambda: client.get_website(7)) < 15_000_000
        assert client.get_website(7) == {"id": 7}


@pytest.mark.parametrize("part", ["%41", "%2541", "&amp;", "\\u0041", "\0", "\u200b", "`", "\n", " "])
def test_a_text_of_escapes_takes_a_small_multiple_of_its_size(part: str) -> None:
    """44 KB on the wire became 3.5 GB in eight nested decodings."""
    secrets = Redactor()
    secrets.add("sk_live_0123456789abcdef")
    text = part * (100_000 // len(part))
    assert without_secrets({"note": text}, secrets) == {"note": text}
    # JSON writes NUL with six characters, Python a zero-width space.
    assert peak_of(lambda: without_secrets({"note": text}, secrets)) < 10 * len(text)
    assert peak_of(lambda: readable(text, None)) < 10 * len(text)


@pytest.mark.parametrize("unit", [b"{},", b"[],", b'{"a":0},', b'"",', b"0,"])
@pytest.mark.parametrize("status", [200, 500])
def test_a_body_of_very_many_values_takes_no_memory(unit: bytes, status: int) -> None:
    """47 KB on the wire became 1.2 GB of objects."""
    body = b'{"data": [' + unit * 3_000_000 + b"0]}"
    answer = http(status, gzip.compress(body, 1), headers=[("Content-Encoding", "gzip")])
    message = "more than 2,000,000 values" if status == 200 else "service failed"
    # The body itself, twice while it grows; nothing of what it holds.
    assert peak_of(lambda: error_of(answer, match=message)) < 4 * len(body) + 10_000_000


def test_a_body_of_as_many_values_as_allowed_is_read() -> None:
    rows = [{"id": number, "domain": "a.example", "list": ["x"] * 90} for number in range(20_000)]
    assert dialect.page(dialect.Answer("GET", "/", 200, {}, json.dumps(rows).encode(), "")).rows == rows


@pytest.mark.parametrize("name", ["id", "domain", "privacy", "message"])
def test_no_value_makes_a_message_of_megabytes(name: str, serving: Serving, execute: Execute) -> None:
    long: Any = "x" * 3_000_000
    with serving({"id": 1, "domain": "a.example", name: long}, {"id": 2, "domain": "b.example", name: long}) as url:
        with client_of(url, max_retries=0) as client:
            errors = []
            for call in (
                client.list_websites,
                lambda: client.find_website("a.example"),
                lambda: client.get_website(1),
                lambda: client.update_website(2, privacy=1),
                lambda: client.create_website("b.example"),
            ):
                try:
                    call()
                except AnalyticsError as error:
                    errors.append(str(error))
        assert all(len(error) < 12_000 for error in errors)
        assert errors or name == "message"
