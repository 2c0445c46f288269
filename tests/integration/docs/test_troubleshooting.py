"""docs/troubleshooting.md: each of its headings is a piece of the text of an error or a warning that really occurs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from certificates import Authority
from fsspec.implementations.local import LocalFileSystem
from raw_server import RawServer, Reply, http

from airflow_provider_analytics.commands import main
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

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
ENTRIES = dict(re.findall(r"^### (.+)\n((?:(?!##).*\n)+)", TEXT.partition("\n## Recovery\n")[0], re.MULTILINE))


@dataclass
class World:
    """What a case may use.

    :param sandbox: the service.
    :param connect: changes the connection: ``connect(password="wrong")``.
    :param execute: runs an operator.
    :param folder: an empty folder.
    :param monkeypatch: changes the environment and the storage.
    """

    sandbox: SandboxServer
    connect: Callable[..., None]
    execute: Callable[..., Any]
    folder: Path
    monkeypatch: pytest.MonkeyPatch

    def managed(self, *addresses: str, **arguments: Any) -> Any:
        return self.sync([*addresses], **{"state_path": str(self.folder), **arguments})

    def file(self, text: str) -> Any:
        path = self.folder / "websites.yaml"
        path.write_text(text)
        return self.execute(PlanWebsitesOperator, config_path=str(path))

    def sync(self, addresses: list[str] | str, **arguments: Any) -> Any:
        return self.execute(SyncExcludedIpsOperator, exclude_ips=addresses, **arguments)

    def snapshot(self, **arguments: Any) -> Any:
        return self.execute(SnapshotWebsitesOperator, **{"base_path": str(self.folder), **arguments})

    def plan(self, config: Any, **arguments: Any) -> Any:
        return self.execute(PlanWebsitesOperator, config=config, **arguments)

    def account(self) -> Any:
        return self.execute(GetAccountOperator)


#: Heading to what makes its error or its warning.
CASES: dict[str, Callable[[World], Any]] = {}
#: Other words of an error or a warning to the heading of the entry that has them, and to what makes them.
WORDS: dict[str, tuple[str, Callable[[World], Any]]] = {}


def case(heading: str, *words: str) -> Callable[[Callable[[World], Any]], Callable[[World], Any]]:
    def keep(function: Callable[[World], Any]) -> Callable[[World], Any]:
        CASES[heading] = function
        WORDS.update(dict.fromkeys(words, (heading, function)))
        return function

    return keep


def more_words(words: str, heading: str, function: Callable[[World], Any]) -> None:
    WORDS[words] = heading, function


def connection_case(heading: str, **changes: Any) -> None:
    def provoke(world: World) -> None:
        world.connect(**changes)
        world.account()

    CASES[heading] = provoke


case("isn't defined")(lambda world: world.execute(GetAccountOperator, analytics_conn_id="nobody_made_this"))
connection_case("The connection is of type", conn_type="http")
connection_case("is not allowed; allowed", extra={"verify": "/no/such/bundle.pem"})
connection_case("The Base URL is missing", host="")
connection_case("contains /api/v1, which is added automatically", host="https://stats.example.com/api/v1")
connection_case("would send the key in clear text", host="http://stats.example.com")
connection_case("The API key is missing", password="")
connection_case("The API key is '***'", password="***")
connection_case("The API key begins with 'Bearer'", password="Bearer 0123456789")
connection_case("is unknown; did you mean", extra={"timout": 10})
connection_case("API key rejected", password="0123456789")
more_words("verify=", "is not allowed; allowed", CASES["is not allowed; allowed"])


more_words("There is no connection", "isn't defined", lambda _: main(["probe", "--conn-id", "nobody_made_this"]))


def variable(world: World, text: str) -> None:
    world.monkeypatch.setenv("AIRFLOW_CONN_ANALYTICS_DEFAULT", text)
    world.account()


more_words("type ''", "The connection is of type", lambda world: variable(world, "analytics_default"))


case("is set, and is neither JSON nor a URI")(lambda world: variable(world, "{'conn_type': 'analytics'}"))


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


def certificate_case(heading: str, host: str, *, expired: bool) -> None:
    def provoke(world: World) -> None:
        authority = Authority(world.folder)
        with RawServer([http(200, {})], tls=authority.server_context(host, expired=expired)) as server:
            world.connect(host=server.url, extra={"verify": str(authority.path), "max_retries": 0})
            world.account()

    CASES[heading] = provoke


certificate_case("has expired", "127.0.0.1", expired=True)
certificate_case("is for another host", "stats.example.com", expired=False)


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


def some_fail(world: World, number: int) -> None:
    world.sandbox.seed(5)
    world.sandbox.fault("update", status=409, times=number)
    world.sync(["192.0.2.1"])


case("websites failed")(lambda world: some_fail(world, 3))
more_words("1 website failed", "websites failed", lambda world: some_fail(world, 1))
more_words("by the check 'total'", "The list may be incomplete", CASES["The list may be incomplete"])


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
case("unusable entries", "is not an IP address")(lambda world: world.sync("vpn.example.com"))


@case("Removed, because it left the list earlier")
def typed_again(world: World) -> None:
    world.sandbox.seed(1)
    world.managed("192.0.2.1", "192.0.2.2")
    world.managed("192.0.2.1")
    world.sandbox.change_website(world.sandbox.websites()[0]["id"], exclude_ips="192.0.2.1\n192.0.2.2")
    world.managed("192.0.2.1")


@case("was last run by task")
def shared_name(world: World) -> None:
    world.sandbox.seed(1)
    world.managed("192.0.2.1", list_name="offices")
    [path] = world.folder.glob("*/lists/*.json")
    path.write_text(re.sub(r'("task": )"task"', r'\1"another"', path.read_text()).replace("2026-01-02", "2026-01-01"))
    world.managed("192.0.2.1", list_name="offices")


@case("The storage cannot write", "Not in the audit trail")
def full_disk(world: World) -> None:
    world.sandbox.seed(3)
    with Path("/dev/full").open("wb") as device:
        world.monkeypatch.setattr("airflow_provider_analytics.operators.audit.open_own", lambda *_: device)
        world.managed("192.0.2.1", mode="merge")


def without_credentials(world: World) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError("Unable to locate credentials")

    world.sandbox.seed(1)
    world.managed("192.0.2.1")
    world.monkeypatch.setattr(LocalFileSystem, "ls", refuse)
    world.managed("192.0.2.1")


def file_in_the_way(world: World) -> None:
    world.sandbox.seed(1)
    (world.folder / "file").write_text("")
    world.managed("192.0.2.1", state_path=str(world.folder / "file"))


more_words("The storage cannot read", "The storage cannot write", without_credentials)
more_words("cannot be written", "The storage cannot write", file_in_the_way)


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
case("invalid YAML")(lambda world: world.file("websites: {"))
more_words("is empty", "invalid YAML", lambda world: world.file(""))
case("there is no such file")(lambda world: world.execute(PlanWebsitesOperator, config_path="/no/such/websites.yaml"))


case("The plan is not the approved one: its digest is")(
    lambda world: world.execute(
        ApplyWebsitesOperator, config={"websites": {"shop.example": {"privacy": "private"}}}, expected_digest="a" * 64
    )
)


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
    world: World,
) -> None:
    with pytest.raises(Exception, match=r"\(422 .* must be a string"):
        no_nullable(world)
    entry = ENTRIES["The service rejected"]
    assert {"422", "must be a string"} <= set(re.findall("422|must be a string", entry))


def test_every_heading_has_a_case_and_every_case_a_heading() -> None:
    assert sorted(ENTRIES) == sorted(CASES)


@pytest.mark.repository
def test_each_check_of_a_list_has_its_advice() -> None:
    source = (ROOT / "airflow_provider_analytics" / "api" / "listing.py").read_text(encoding="utf-8")
    checks = re.findall(r'(?:IncompleteListError|_list_changed)\(\s*"([a-z ]+)"', source)
    assert sorted(set(checks)) == sorted(re.findall(r"'([a-z ]+)'", ENTRIES["The list may be incomplete"]))


@pytest.fixture
def world(
    analytics_sandbox: SandboxServer,
    connect: Callable[..., None],
    execute: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> World:
    return World(analytics_sandbox, connect, execute, tmp_path, monkeypatch)


@pytest.mark.parametrize("heading", CASES)
def test_the_error_says_what_its_heading_says(heading: str, world: World, task_log: Callable[[], str]) -> None:
    try:
        CASES[heading](world)
    except Exception as error:
        text = str(error)
    else:  # a warning
        text = task_log()
    assert heading in text


@pytest.mark.parametrize("words", WORDS)
def test_the_entry_has_these_words_of_the_error(words: str, world: World, task_log: Callable[[], str]) -> None:
    heading, provoke = WORDS[words]
    assert words in ENTRIES[heading]
    try:
        provoke(world)
    except Exception as error:
        text = str(error)
    else:
        text = ""
    assert words in text + task_log()
