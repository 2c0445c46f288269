"""docs/troubleshooting.md: each of its headings is a piece of the text of an error that really occurs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from certificates import Authority
from raw_server import RawServer, Reply, http

from airflow_provider_analytics.hooks.analytics import AnalyticsHook
from airflow_provider_analytics.operators.account import GetAccountOperator
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.operators.snapshots import PruneSnapshotsOperator, SnapshotWebsitesOperator
from airflow_provider_analytics.operators.websites import (
    CreateWebsiteOperator,
    GetWebsiteOperator,
    ListWebsitesOperator,
    UpdateWebsiteOperator,
)
from airflow_provider_analytics.operators.websites_as_code import ApplyWebsitesOperator, PlanWebsitesOperator
from airflow_provider_analytics.sandbox.server import SandboxServer

TEXT = (Path(__file__).parents[3] / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
HEADINGS = re.findall(r"^### (.+)$", TEXT.partition("\n## Recovery\n")[0], re.MULTILINE)


@dataclass
class World:
    """What a case may use.

    :param sandbox: the service.
    :param connect: changes the connection: ``connect(password="wrong")``.
    :param execute: runs an operator.
    :param folder: an empty folder.
    """

    sandbox: SandboxServer
    connect: Callable[..., None]
    execute: Callable[..., Any]
    folder: Path

    def sync(self, addresses: list[str] | str, **arguments: Any) -> Any:
        return self.execute(SyncExcludedIpsOperator, exclude_ips=addresses, **arguments)

    def snapshot(self, **arguments: Any) -> Any:
        return self.execute(SnapshotWebsitesOperator, **{"base_path": str(self.folder), **arguments})

    def plan(self, config: Any, **arguments: Any) -> Any:
        return self.execute(PlanWebsitesOperator, config=config, **arguments)

    def account(self) -> Any:
        return self.execute(GetAccountOperator)


#: Heading to what makes its error.
CASES: dict[str, Callable[[World], Any]] = {}


def case(heading: str) -> Callable[[Callable[[World], Any]], Callable[[World], Any]]:
    def keep(function: Callable[[World], Any]) -> Callable[[World], Any]:
        CASES[heading] = function
        return function

    return keep


def connection_case(heading: str, **changes: Any) -> None:
    def provoke(world: World) -> None:
        world.connect(**changes)
        world.account()

    CASES[heading] = provoke


case("isn't defined")(lambda world: world.execute(GetAccountOperator, analytics_conn_id="nobody_made_this"))
connection_case("The connection is of type", conn_type="http")
connection_case("The Base URL is missing", host="")
connection_case("contains /api/v1, which is added automatically", host="https://stats.example.com/api/v1")
connection_case("would send the key in clear text", host="http://stats.example.com")
connection_case("The API key is missing", password="")
connection_case("The API key is '***'", password="***")
connection_case("The API key begins with 'Bearer'", password="Bearer 0123456789")
connection_case("is unknown; did you mean", extra={"timout": 10})
connection_case("API key rejected", password="0123456789")


def fault_case(heading: str, operator: type, arguments: dict[str, Any], operation: Any, **fault: Any) -> None:
    def provoke(world: World) -> None:
        world.connect()
        world.sandbox.seed(3)
        world.sandbox.fault(operation, times=None, **fault)
        world.execute(operator, **arguments)

    CASES[heading] = provoke


fault_case("The API key does not have the permission for this request", GetAccountOperator, {}, "any", status=403)
fault_case("A web page refused the request", GetAccountOperator, {}, "any", status=403, body="<h1>Log in</h1>")
fault_case("The service limits the rate of requests", GetAccountOperator, {}, "any", status=429)
fault_case("The service failed", GetAccountOperator, {}, "any", status=500)
fault_case("The response is a web page", GetAccountOperator, {}, "any", body="<h1>Back soon</h1>")
fault_case(
    "The service redirects", GetAccountOperator, {}, "any", status=302, headers={"Location": "https://x.example/"}
)
fault_case("The list may be incomplete", ListWebsitesOperator, {}, "any", options={"total_offset": 3})
fault_case("may or may not have been created", CreateWebsiteOperator, {"domain": "new.example"}, "create", drop=True)
case("Not found (404")(lambda world: world.execute(GetWebsiteOperator, website_id=7))


@case("The service rejected")
def no_nullable(world: World) -> None:
    one = world.sandbox.add_website("shop.example", exclude_ips="192.0.2.1")
    message = "The exclude ips field must be a string."
    world.sandbox.fault("update", status=422, body={"message": message, "errors": {"exclude_ips": [message]}})
    world.execute(UpdateWebsiteOperator, website_id=one["id"], exclude_ips=[])


@case("cannot be reached")
def nothing_listens(world: World) -> None:
    with RawServer([http()]) as server:
        url = server.url
    world.connect(host=url)
    world.account()


@case("did not respond within")
def silence(world: World) -> None:
    with RawServer([Reply(then="hang")]) as server:
        world.connect(host=server.url, extra={"max_retries": 0, "timeout": 0.05})
        world.account()


@case("more than 2,000,000 values")
def too_many_values(world: World) -> None:
    with RawServer([http(200, b"[" + b"{}," * 1_000_001 + b"{}]")]) as server:
        world.connect(host=server.url)
        world.execute(ListWebsitesOperator)


@case("is not trusted")
def unknown_authority(world: World) -> None:
    with RawServer([http(200, {})], tls=Authority(world.folder).server_context("127.0.0.1")) as server:
        world.connect(host=server.url)
        world.account()


@case("does not speak https on this port")
def plain_on_tls(world: World) -> None:
    world.connect(host=world.sandbox.url.replace("http:", "https:"))
    world.account()


@case("The service accepted the write, but")
def not_taken(world: World) -> None:
    world.sandbox.add_website("shop.example", privacy=0)
    world.sandbox.configure(ignored_fields=["privacy"])
    world.execute(UpdateWebsiteOperator, domain="shop.example", privacy="private")


@case("The response contains no list of websites, or more than one")
def unknown_key(world: World) -> None:
    world.sandbox.configure(list_key="result.items")
    world.execute(ListWebsitesOperator)


@case("websites failed")
def some_fail(world: World) -> None:
    world.sandbox.seed(5)
    world.sandbox.fault("update", status=409, times=3)
    world.sync(["192.0.2.1"])


@case("Sent, and not in effect")
def never_taken(world: World) -> None:
    world.sandbox.seed(1)
    world.sandbox.configure(ignored_fields=["exclude_ips"])
    world.sync(["192.0.2.1"])


@case("so the service does it with each website")
def never_taken_by_any(world: World) -> None:
    world.sandbox.seed(3)
    world.sandbox.configure(ignored_fields=["exclude_ips"])
    world.sync(["192.0.2.1"])


@case("websites have the domain")
def twice(world: World) -> None:
    world.sandbox.add_website("shop.example")
    world.sandbox.add_website("shop.example")
    with AnalyticsHook() as hook:
        hook.find_website("shop.example")


@case("more than max_loss_fraction")
def shrunk(world: World) -> None:
    world.sandbox.seed(20)
    world.snapshot()
    world.sandbox.reset()
    world.sandbox.seed(5)
    world.snapshot()


@case("The list has 0 websites")
def emptied(world: World) -> None:
    world.sandbox.seed(20)
    world.snapshot()
    world.sandbox.reset()
    world.snapshot()


@case("is of another list")
def another_list(world: World) -> None:
    world.sandbox.seed(20)
    world.snapshot()
    world.snapshot(favorite=True)


@case("is over and has its snapshot")
def past_day(world: World) -> None:
    world.sandbox.seed(3)
    world.snapshot(partition_date="2026-01-02", late="label")
    world.snapshot(partition_date="2026-01-02")


case("Airflow has no file system for")(lambda world: world.snapshot(base_path="gs://my-bucket/analytics"))


@case("cannot write the snapshot to")
def no_folder(world: World) -> None:
    (world.folder / "file").write_text("in the way")
    world.sandbox.seed(3)
    world.snapshot(base_path=str(world.folder / "file"))


@case("has no manifest of any of them")
def foreign_table(world: World) -> None:
    (world.folder / "websites" / "dt=2026-01-01").mkdir(parents=True)
    world.execute(PruneSnapshotsOperator, base_path=str(world.folder), keep_days=1)


@case("shows the API key in an id or in a domain")
def named_like_the_key(world: World) -> None:
    world.sandbox.add_website(f"{world.sandbox.api_key}.example")
    world.execute(ListWebsitesOperator)


@case("entries would be lost")
def list_cut(world: World) -> None:
    for number in range(5):
        world.sandbox.add_website(f"{number}.example", exclude_ips="192.0.2.1\n192.0.2.2\n192.0.2.3")
    world.sync(["192.0.2.1"], mode="replace")


case("is empty. Does its source exist")(lambda world: world.sync(""))


@case("entries left the list")
def managed_list_cut(world: World) -> None:
    world.sandbox.seed(1)
    for number in (20, 4):
        world.sync([f"192.0.2.{one}" for one in range(number)], state_path=str(world.folder))


def table_case(world: World, text: Callable[[str], str]) -> None:
    world.sandbox.seed(1)
    world.sync(["192.0.2.1"], state_path=str(world.folder))
    [path] = world.folder.glob("*/lists/*.json")
    path.write_text(text(path.read_text()))
    world.sync(["192.0.2.1"], state_path=str(world.folder))


case("The table belongs to another")(lambda world: table_case(world, lambda text: text.replace("http://", "https://")))
case("This is not the table of a list")(lambda world: table_case(world, lambda text: text[: len(text) // 2]))
case("have the same list")(
    lambda world: table_case(world, lambda text: text.replace('"task": "task"', '"task": "another"'))
)
case("A later run of the list")(
    lambda world: table_case(
        world,
        lambda text: (
            re.sub('"began": "....', '"began": "9999', text)
            .replace("manual__2026", "manual__9999")
            .replace("192.0.2.1", "192.0.2.9")
        ),
    )
)


@case("No website matches")
def misspelt_selector(world: World) -> None:
    world.sandbox.seed(3)
    world.sync(["192.0.2.1"], websites=["shpo.example"])


case("is not known; did you mean")(lambda world: world.plan({"websites": {"shop.example": {"privcy": "private"}}}))


@case("Planned now, but not approved")
def more_than_approved(world: World) -> None:
    state = str(world.folder)
    websites = {"shop.example": {"privacy": "private"}}
    digest = world.plan({"websites": websites}, state_path=state)["digest"]
    world.execute(
        ApplyWebsitesOperator,
        config={"websites": {**websites, "blog.example": {"privacy": "private"}}},
        state_path=state,
        expected_digest=digest,
    )


@case("The response has no digest of a plan")
def approved_without_its_digest(world: World) -> None:
    answer = {"chosen_options": ["Approve"], "params_input": {}}
    world.execute(ApplyWebsitesOperator, config={"websites": {"shop.example": {}}}, expected_digest=answer)


@case("websites would be deleted")
def file_cut(world: World) -> None:
    world.sandbox.seed(20)
    config = {"websites": {world.sandbox.websites()[0]["domain"]: {"privacy": "private"}}}
    world.execute(ApplyWebsitesOperator, config=config, prune=True)


def test_the_reason_of_a_rejected_value_is_in_the_entry(
    analytics_sandbox: SandboxServer, connect: Callable[..., None], execute: Callable[..., Any], tmp_path: Path
) -> None:
    with pytest.raises(Exception, match=r"\(422 .* must be a string"):
        no_nullable(World(analytics_sandbox, connect, execute, tmp_path))
    _, _, entry = TEXT.partition("### The service rejected\n")
    assert {"422", "must be a string"} <= set(re.findall("422|must be a string", entry.partition("###")[0]))


def test_every_heading_has_a_case_and_every_case_a_heading() -> None:
    assert sorted(HEADINGS) == sorted(CASES)


@pytest.mark.parametrize("heading", CASES)
def test_the_error_says_what_its_heading_says(
    heading: str,
    analytics_sandbox: SandboxServer,
    connect: Callable[..., None],
    execute: Callable[..., Any],
    tmp_path: Path,
) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - its text is what is looked at
        CASES[heading](World(analytics_sandbox, connect, execute, tmp_path))
    assert heading in str(caught.value)
