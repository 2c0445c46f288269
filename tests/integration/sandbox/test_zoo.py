"""Each option of ``tests/support/zoo.py`` has an effect on the wire, and a test of the package plays it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import requests
from operations import PREFIX
from zoo import Zoo, ZooOptions

from airflow_provider_analytics.sandbox.options import Options
from airflow_provider_analytics.sandbox.server import SandboxServer

OWN = sorted(ZooOptions.model_fields.keys() - Options.model_fields.keys())
#: Values of the options that are no choice between words.
VALUES: dict[str, list[Any]] = {
    "strict_parameters": [False],
    "first_page": [0],
    "by_offset": [True],
    "list_key": ["websites", "data.data", None],
    "lists_beside": ["groups"],
    "list_hides": [["favorite"]],
    "page_size_limit": [3],
    "page_offset": [-1, 1],
    "total_offset": [-1, 2],
    "total_cap": [2],
    "row_cap": [3],
    "record_key": ["website", "data.website", "data:attributes", None],
    "numbers_as_text": [True],
    "extra_fields": [{"url": "https://{domain}/?k={password}{api_key}"}],
    **{f"{operation}_status": [202, 204] for operation in ("create", "update", "delete")},
    "ignored_fields": [["privacy"]],
    "required_headers": [{"CF-Access-Client-Id": "team"}],
}
#: Options without which another one changes nothing.
NEEDS: dict[str, dict[str, Any]] = {"current_page": {"page_offset": -1}, "echoes": {"ignored_fields": ["privacy"]}}
LINES = "10.0.0.0/8\nab::1 # Ann\n10.0.0.1\n198.51.100.1\n203.0.113.1"
REQUESTS: list[tuple[str, str, dict[str, Any]]] = [
    *(("GET", f"/websites?{query}", {}) for query in ("per_page=10", "per_page=10&page=2", "page=3", "sort=asc")),
    *(("GET", f"/websites?search={text}", {}) for text in ("SHOP", "shop", "shop.example", "hop")),
    *(("GET", f"/websites?{query}", {}) for query in ("favorite=false", "favorite=0", "colour=red", "sort_by=domain")),
    *(("GET", path, {}) for path in ("/websites/1", "/websites/99", "/account")),
    ("GET", "/account", {"headers": {"Authorization": "Bearer wrong"}}),
    ("POST", "/websites", {"data": {"domain": "www.Bücher.example", "privacy": "1"}}),
    ("POST", "/websites", {"data": {"domain": "straße.example", "exclude_ips": LINES}}),
    ("PATCH", "/websites/1", {"data": {"privacy": "1", "exclude_ips": "192.0.2.1\n192.0.2.9"}}),
    ("DELETE", "/websites/2", {}),
    *(("GET", path, {}) for path in ("/websites", "/websites/2", "/websites/14")),
]


def transcript(sandbox: SandboxServer, **options: Any) -> list[str]:
    """Return what a service answers and stores with these options."""
    sandbox.reset()
    for number in range(10):
        sandbox.add_website(f"{9 - number}.example", created_at="2026-11-20T00:00:00Z")
    lists = {"exclude_ips": "192.0.2.1\n192.0.2.2", "exclude_params": "utm_source\nutm_medium\nutm_campaign"}
    sandbox.change_website(1, domain="shop.example", favorite=True, email=1, privacy=2, password="open", **lists)
    sandbox.change_website(2, domain="www.shopping.example")
    sandbox.configure(**options)
    shown = []
    with requests.Session() as session:
        session.headers.update({"Authorization": f"Bearer {sandbox.api_key}", "Accept": "application/json"})
        for method, path, more in REQUESTS:
            answer = session.request(method, f"{sandbox.url}{PREFIX}{path}", allow_redirects=False, timeout=10, **more)
            headers = [answer.headers.get(name) for name in ("Link", "Location", "CF-Ray")]
            is_json = answer.text.startswith(("{", "["))
            body = json.dumps(answer.json(), sort_keys=True) if is_json else answer.text
            shown.append(f"{answer.status_code} {headers} {body}".replace(sandbox.url, ""))
    return [re.sub(r"20\d\d-\d\d-\d\dT[\d:]+Z", "", one) for one in (*shown, *map(str, sandbox.websites()))]


@cache
def without(sandbox: SandboxServer, option: str) -> list[str]:
    return transcript(sandbox, **NEEDS.get(option, {}))


@pytest.fixture(scope="module")
def _analytics_sandbox_server() -> Iterator[Zoo]:
    with Zoo() as server:
        yield server


def values_of(option: str) -> list[Any]:
    field = ZooOptions.model_fields[option]
    kind, inner = field.annotation, get_args(field.annotation)
    if get_origin(kind) is Literal:
        return [value for value in inner if value != field.default]
    return VALUES[option] if option in VALUES else [[value] for value in get_args(inner[0])]


@pytest.mark.parametrize(("option", "value"), [(option, value) for option in OWN for value in values_of(option)])
def test_each_value_of_an_option_changes_an_answer(analytics_sandbox: Zoo, option: str, value: Any) -> None:
    assert transcript(analytics_sandbox, **NEEDS.get(option, {}), **{option: value}) != without(
        analytics_sandbox, option
    )


def test_without_options_it_is_the_sandbox_of_users(analytics_sandbox: Zoo) -> None:
    with SandboxServer(api_key=analytics_sandbox.api_key) as sandbox:
        assert transcript(analytics_sandbox) == transcript(sandbox)


@pytest.mark.parametrize(
    "options", [{"colour": "red"}, {"metadata": "elsewhere"}, {"ignored_fields": ["privcy"]}, {"preset": "x"}], ids=str
)
def test_a_wrong_option_is_an_error_and_changes_nothing(analytics_sandbox: Zoo, options: dict[str, Any]) -> None:
    before = analytics_sandbox.options
    with pytest.raises(ValueError, match=next(iter(options))):
        analytics_sandbox.configure(**options)
    assert analytics_sandbox.options == before


@pytest.mark.repository
@pytest.mark.parametrize("option", OWN)
def test_a_test_of_the_package_plays_each_option(option: str) -> None:
    used = re.compile(rf'\b{option}("\]?: |=)')
    paths = Path(__file__).parents[2].rglob("*.py")
    others = (path for path in paths if path.parent.name != "sandbox" and path.name != "zoo.py")
    assert any(used.search(path.read_text(encoding="utf-8")) for path in others)
