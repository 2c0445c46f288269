# SPDX-License-Identifier: Apache-2.0
"""Untrusted responses: they cannot forge logs or plans, or exhaust time and memory (``readable.py``, ``api``)."""

from __future__ import annotations

import ast
import gzip
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from fixture_types import Execute, Serving
from hypothesis import given
from hypothesis import strategies as st
from jinja2.sandbox import SandboxedEnvironment
from markdown_it import MarkdownIt
from raw_server import Request, http
from wire_client import client_of, do, error_of, served

from airflow_provider_analytics.api import laravel, listing
from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.exceptions import AnalyticsError, IncompleteListError
from airflow_provider_analytics.operators.account import GetAccountOperator
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.operators.snapshots import CompareSnapshotsOperator, SnapshotWebsitesOperator
from airflow_provider_analytics.operators.websites import GetWebsiteOperator, UpdateWebsiteOperator
from airflow_provider_analytics.operators.websites_as_code import ExportWebsitesOperator, PlanWebsitesOperator
from airflow_provider_analytics.readable import Redactor, code_span, readable, without_secrets

#: Characters that must never be printed: line breaks, escape codes, direction marks, characters without a glyph.
FORGED = "a\nERROR forged\r\x1b[31m\u202egpj\u200b\u2066\xad\x00\u2028b"


def shows_as_it_is(text: str) -> list[str]:
    """Return the characters that would change the display of a log, a terminal, or a page."""
    return sorted({item for item in text if item != "\n" and not item.isprintable()})


RECORD = {
    "id": 1,
    "domain": f"{FORGED}.example",
    "privacy": 1,
    "email": 0,
    "exclude_bots": 1,
    "exclude_params": f"{FORGED.splitlines()[0]}\u202e\u200b",
    "exclude_ips": "192.0.2.1 # \u202e\n192.0.2.2 # ![](https://evil.example/pixel.png)\n192.0.2.3 # [](//evil.test)",
    "favorite": False,
    f"field{FORGED}": 1,
}


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (500, []),
        (422, []),
        (302, [("Location", "https://evil.example/\x1b[31m\xad")]),
        (403, [("Content-Type", "text/html\x1b[31m")]),
        (200, [("Content-Type", "text/\x1b[31m\xad")]),
        (200, [("Content-Encoding", "br\x1b[31m\xad")]),
        (503, [("Retry-After", "soon\x1b[31m\xad"), ("CF-Ray", "\x1b[2J\xad")]),
    ],
)
@pytest.mark.parametrize("shape", ["page", "title", "message", "errors"])
def test_response_cannot_forge_a_log_line(
    status: int, headers: list[tuple[str, str]], shape: str, logged: Callable[[], str]
) -> None:
    body: Any = {
        "page": FORGED.encode(),
        "title": f"<title>{FORGED}</title>".encode(),
        "message": {"message": FORGED},
        "errors": {"message": "no", "errors": {FORGED: [FORGED]}},
    }[shape]
    error = str(error_of(http(status, body, kind=None, headers=headers)))
    assert shows_as_it_is(error) == []
    assert not [line for line in error.splitlines() if line.startswith("ERROR")]
    assert any(escape in error for escape in ("forged \\x1b", "forged\\r\\u001b", "br\\x1b"))
    assert shows_as_it_is(logged()) == []
    assert not [line for line in logged().splitlines() if line.startswith("ERROR forged")]


def test_record_cannot_forge_a_log_a_plan_or_a_report(
    serving: Serving, execute: Execute, logged: Callable[[], str], tmp_path: Path
) -> None:
    other = {**RECORD, "id": 2, "domain": "b.example", "exclude_ips": ""}
    base = str(tmp_path / "base")
    snapshot: dict[str, Any] = {"base_path": base, "on_late": "publish", "html_report": True}
    with serving(other, RECORD):
        execute(GetWebsiteOperator, website_id=1)
        execute(GetAccountOperator)
        execute(SnapshotWebsitesOperator, **snapshot, partition_date="2026-01-01")
        synced = execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.9"], dry_run=True, state_path=f"{tmp_path}/s")
        file = {"websites": {"b.example": {"privacy": "public"}}}
        planned = execute(PlanWebsitesOperator, config=file, prune=True, override_guards=["many_deleted"])
        execute(ExportWebsitesOperator, output_path=f"{tmp_path}/export.yaml")
        with pytest.raises((AnalyticsError, AirflowFailException)) as failed:
            execute(UpdateWebsiteOperator, website_id=1, email_reports=True)
    changed = {**RECORD, "privacy": FORGED, "exclude_params": "x"}
    with serving(changed):
        execute(
            SnapshotWebsitesOperator,
            **snapshot,
            partition_date="2026-01-02",
            override_guards=["other_source", "fewer_websites", "missing_fields"],
        )
    execute(CompareSnapshotsOperator, base_path=base)
    pages = [path.read_text() for path in tmp_path.rglob("*") if path.suffix in (".md", ".html", ".yaml")]
    assert len(pages) == 4
    texts = [logged(), str(failed.value), synced["markdown"], planned["markdown"], *synced["changes"], *pages]
    assert [shows_as_it_is(text) for text in texts] == [[]] * len(texts)
    assert not [line for text in texts for line in text.splitlines() if line.startswith("ERROR forged")]
    assert any("\\u202e" in text for text in texts)


@pytest.mark.parametrize("operation", ["list", "show", "create", "account"])
@pytest.mark.parametrize("levels", [60, 600, 900])
def test_record_that_is_nested_too_deeply_is_rejected_with_its_id(operation: str, levels: int) -> None:
    value = json.loads("[" * levels + "]" * levels)
    record = {"id": 4711, "domain": "new.example", "privacy": value if levels == 600 else 0, "note": {"a": value}}
    reply = http(200, {"data": [record] if operation == "list" else record})
    error = error_of(reply, lambda client: do(client, operation))
    assert "4711" in str(error)
    assert "nested more than 50 levels deep" in str(error)


def test_record_with_nested_fields_is_read() -> None:
    records = [{"id": number, "domain": f"{number}.example", "more": [[[{"a": [1]}]]]} for number in range(1, 101)]
    with served(http(200, {"data": records, "total": 100})) as (client, _):
        assert client.page({}).rows == records


def test_markdown_page_loads_no_picture_and_has_no_external_link(
    serving: Serving, execute: Execute, tmp_path: Path
) -> None:
    markup = "![](https://evil.example/pixel.png) [link](https://evil.example) <img src=x> `x https://evil.example"
    record = {**RECORD, "domain": markup, "privacy": f"{markup} ` {markup}", "exclude_params": markup.split()}
    with serving(record):
        file = {"websites": {"b.example": {"privacy": "private"}}}
        execute(
            PlanWebsitesOperator,
            config=file,
            prune=True,
            override_guards=["many_deleted", "empty_list"],
            state_path=str(tmp_path),
        )
    [page] = tmp_path.rglob("*.md")
    text = page.read_text()
    assert "evil.example" in text
    blocks = [token.children or [token] for token in MarkdownIt("commonmark").parse(text) if token.content]
    outside_of_code = [token for block in blocks for token in block if token.type != "code_inline"]
    assert {token.type for token in outside_of_code}.isdisjoint({"image", "link_open", "html_inline", "html_block"})
    assert [token.content for token in outside_of_code if "evil" in token.content] == []


def test_slack_text_of_a_sample_has_no_mentions_and_no_links() -> None:
    forged = "x.example <!channel> & <https://evil.example|x>"
    shown = []
    for path in (Path(__file__).parents[3] / "dags").glob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and "SlackWebhookNotifier" in ast.unparse(call.func):
                [template] = [ast.literal_eval(keyword.value) for keyword in call.keywords if keyword.arg == "text"]
                shown.append(SandboxedEnvironment().from_string(template).render(exception=ValueError(forged)))
    assert shown == ["x.example &lt;!channel&gt; &amp; &lt;https://evil.example|x&gt;"]


#: Texts that raised an error, or took long, in some library.
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
def test_readable_accepts_any_text(text: str | bytes, is_part: bool) -> None:
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


# No database can store a lone surrogate.
@pytest.mark.parametrize("hostile", [name for name in HOSTILE if name != "half of a pair"])
def test_snapshot_succeeds_with_any_text_in_a_record(
    hostile: str, serving: Serving, execute: Execute, tmp_path: Path
) -> None:
    records = [
        {"id": 2, "domain": "b.example", "note": HOSTILE[hostile], "exclude_params": HOSTILE[hostile]},
        {"id": 1, "domain": "a.example", "note": "R&D 100%"},
    ]
    with serving(*records):
        taken = execute(SnapshotWebsitesOperator, base_path=str(tmp_path), html_report=True)
        returned = execute(GetWebsiteOperator, website_id=2)
    assert taken["count"] == 2
    assert returned["note"].encode("utf-8", "replace") == HOSTILE[hostile].encode("utf-8", "replace")


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("hostile", HOSTILE)
def test_error_body_with_any_text_still_raises_the_error(hostile: str, status: int) -> None:
    text = HOSTILE[hostile].encode("utf-8", "replace")
    for body in (text, b"<title>" + text + b"</title>", json.dumps({"message": HOSTILE[hostile]}).encode()):
        error_of(http(status, body, kind="text/html"))


def compressed(body: bytes, tail: bytes) -> bytes:
    return http(200, gzip.compress(body) + tail, headers=[("Content-Encoding", "gzip")])


def peak_of(call: Callable[[], object]) -> int:
    """Return the peak memory of a call in bytes."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("tail", [b"\0" * 100, b"anything", b"\n", b"\0" * 20_000_000], ids=len)
def test_bytes_after_the_end_of_a_stream_are_ignored(tail: bytes) -> None:
    with served(compressed(b'{"id": 7}', tail=tail)) as (client, _):
        # The server of the test keeps its own copies.
        assert peak_of(lambda: client.get_website(7)) < 15_000_000
        assert client.get_website(7) == {"id": 7}


@pytest.mark.parametrize("part", ["%41", "%2541", "&amp;", "\\u0041", "\0", "\u200b", "`", "\n", " "])
@pytest.mark.long
def test_text_of_escapes_needs_memory_in_proportion_to_its_size(part: str) -> None:
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
@pytest.mark.long
def test_body_of_very_many_values_is_rejected_without_much_memory(unit: bytes, status: int) -> None:
    """47 KB on the wire became 1.2 GB of objects."""
    body = b'{"data": [' + unit * 3_000_000 + b"0]}"
    answer = http(status, gzip.compress(body, 1), headers=[("Content-Encoding", "gzip")])
    message = "more than 2,000,000 values" if status == 200 else "service failed"
    # The body itself, twice while it grows, without its content.
    assert peak_of(lambda: error_of(answer, lambda client: client.page({}), match=message)) < 4 * len(body) + 10_000_000


@pytest.mark.parametrize(
    ("unit", "number", "message"),
    [(b"[],", 200_000, "more than 100,000 values"), (b" ", 4_200_000, "larger than 4194304")],
)
def test_record_of_a_single_website_has_lower_limits_than_a_list(unit: bytes, number: int, message: str) -> None:
    body = b'{"id": 7, "note": [' + unit * number + b"0]}"
    error_of(http(200, body), lambda client: client.get_website(7), match=message)


@pytest.mark.slow  # with gigabytes of memory, if the pages are read at the same time
@pytest.mark.chosen
def test_large_pages_are_read_in_sequence() -> None:
    """17 bodies at once, of 50 MiB each, took 5.3 GB."""
    note: list[object] = [[]] * 15_000

    def respond(request: Request) -> bytes:
        number = int(request.query.get("page", 1))
        ids = range(1700 - (number - 1) * 100, 1700 - number * 100, -1)
        if request.query["sort"] == "asc":
            ids = range(1, 11)
        large = ids[:10] if number > 1 else ()
        found = [{"id": n, "domain": f"{n}.example", "note": note if n in large else []} for n in ids]
        return http(200, {"data": found, "total": 1700, "current_page": number})

    with served(respond, parallel_requests=16) as (client, _):
        websites: list[int] = []
        peak = peak_of(lambda: websites.extend(row["id"] for row in client.iter_websites()))
    assert websites == list(range(1700, 0, -1))
    # A page takes 10 MB; 16 were read at once.
    assert peak < 60_000_000


def endless(request: Request) -> bytes:
    """Respond like a service with an endless list."""
    first = int(request.query.get("page", 1)) * 100
    rows = [{"id": f"a{first + at}", "domain": f"{first + at}.example", "note": "x" * 1000} for at in range(100)]
    return http(200, {"data": rows})


@pytest.mark.parametrize(
    ("limit", "value", "message"),
    [
        ("MAX_LIST_PAGES", 50, "more than 50 pages"),
        ("MAX_LIST_WEBSITES", 5_000, "more than 5,000 websites"),
        ("MAX_LIST_BYTES", 5_000_000, "more than 5,000,000 bytes"),
        ("MAX_LIST_VALUES", 20_000, "more than 20,000 values"),
    ],
)
@pytest.mark.long
def test_endless_list_is_abandoned_at_each_limit(
    limit: str, value: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, limit, value)
    error_of(endless, AnalyticsClient.list_websites, IncompleteListError, match=message)
    with served(endless) as (client, server):
        with pytest.raises(IncompleteListError):
            client.list_websites()
        assert len(server.requests) <= 60


@pytest.mark.parametrize("total", [1_000_001, 10**9, 10**17])
@pytest.mark.parametrize("parallel", [1, 16])
def test_total_above_the_limit_is_rejected_after_the_first_page(total: int, parallel: int) -> None:
    def respond(request: Request) -> bytes:
        return http(200, {"data": [{"id": 7, "domain": "a.example"}], "total": total})

    with (
        served(respond, parallel_requests=parallel) as (client, server),
        pytest.raises(IncompleteListError, match="more than 1,000,000 websites"),
    ):
        client.list_websites()
    assert len(server.requests) <= 2


@pytest.mark.parametrize("excess", [0, 1])
def test_body_is_rejected_above_two_million_values(excess: int) -> None:
    start, end = b'[{"id":1,"domain":"a.example","note":[', b"0]}]"
    body = start + b"0," * (2_000_000 + excess - laravel.count_values(start + end)) + end
    answer = laravel.Answer("GET", "/", 200, {}, body, Redactor())
    if excess:
        with pytest.raises(AnalyticsError, match=r"more than 2,000,000 values"):
            laravel.page(answer)
    else:
        assert [row["id"] for row in laravel.page(answer).rows] == [1]


@pytest.mark.parametrize("name", ["id", "domain", "privacy", "message"])
@pytest.mark.long
def test_error_message_is_short_if_a_value_has_a_megabyte(name: str, serving: Serving, execute: Execute) -> None:
    long: Any = "x" * 1_000_000
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
