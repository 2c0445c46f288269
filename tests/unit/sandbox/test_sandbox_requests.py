from __future__ import annotations

from urllib.parse import urlencode

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_analytics.sandbox.options import Options
from airflow_provider_analytics.sandbox.requests import ROUTES, Operation, RecordedRequest
from airflow_provider_analytics.sandbox.service import Service

HEADERS = [(b"accept", b"application/json"), (b"content-type", b"application/x-www-form-urlencoded")]
#: What may be anywhere in a query or a form.
NAMES = [
    "search",
    "favorite",
    "sort",
    "sort_by",
    "per_page",
    "page",
    "cursor",
    "domain",
    "privacy",
    "password",
    "email",
]
TEXTS = st.sampled_from(["", "0", "1", "2", "true", "id", "domain", "asc", "10", "a.example"]) | st.text(max_size=5)


def encoded(pairs: list[tuple[str, str]]) -> bytes:
    return urlencode(pairs, errors="replace").encode()


PAIRS = st.lists(st.tuples(st.sampled_from(NAMES), TEXTS), max_size=4)


@given(
    st.sampled_from(ROUTES),
    st.sampled_from(["1", "99", "x", "%00", "9" * 40]),
    PAIRS.map(encoded) | st.binary(max_size=20),
    PAIRS.map(encoded) | st.binary(max_size=20),
    st.sampled_from([{}, {"preset": "cursor"}, {"preset": "simple"}, {"boolean_rule": True}]),
)
def test_any_request_has_an_answer(
    route: tuple[Operation, str, str], website_id: str, query: bytes, body: bytes, options: dict[str, object]
) -> None:
    service = Service("")
    service.store.seed(3)
    operation, method, path = route
    target = f"/api/v1{path.format(id=website_id)}?{query.decode('latin-1')}"
    request = RecordedRequest(operation, method, target, "http://sandbox", HEADERS, body, authorized=True)

    response = service.respond(request, Options().changed(options))

    assert response.status_code in (200, 201, 404, 422)
