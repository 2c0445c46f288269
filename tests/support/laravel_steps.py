# SPDX-License-Identifier: Apache-2.0
"""Everything that a user does with a service, in steps with the default settings of a connection."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from airflow_provider_analytics.api.fields import normalize
from airflow_provider_analytics.hooks.analytics import AnalyticsHook
from airflow_provider_analytics.operators.account import GetAccountOperator
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator, SyncExcludedParamsOperator
from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator
from airflow_provider_analytics.operators.websites import (
    CreateWebsiteOperator,
    DeleteWebsiteOperator,
    GetWebsiteOperator,
    ListWebsitesOperator,
    UpdateWebsiteOperator,
)
from airflow_provider_analytics.operators.websites_as_code import (
    ApplyWebsitesOperator,
    CheckDriftOperator,
    ExportWebsitesOperator,
    PlanWebsitesOperator,
)

#: More than fits into VARCHAR(255).
LONG_LIST = [f"198.51.100.{number}" for number in range(1, 41)]
CODE = {
    "defaults": {"exclude_params": ["utm_source"]},
    "websites": {
        "a.example": {"privacy": "private", "favorite": True},
        "code.example": {"privacy": "password", "password_from": "variable:page_password", "favorite": True},
    },
}


def run_steps(execute: Callable[..., Any], folder: Path) -> dict[str, str | None]:
    """Take all steps, and return each with the reason why it failed, or None.

    :param execute: runs an operator.
    :param folder: folder for snapshots and state.
    """
    outcome: dict[str, str | None] = {}
    with AnalyticsHook() as hook:
        for name, step in _steps(hook, execute, folder).items():
            try:
                passed = step()
                outcome[name] = None if passed else f"unexpected result: {passed!r}"
            except Exception as error:
                outcome[name] = f"{type(error).__name__}: {error}"
    return outcome


def _steps(hook: AnalyticsHook, execute: Callable[..., Any], folder: Path) -> dict[str, Callable[[], Any]]:
    lists = {"websites": ["a.example", "b.example"], "mode": "merge", "state_path": str(folder)}
    code = {"config": CODE, "state_path": str(folder)}

    def id_of(domain: str) -> Any:
        return hook.find_website(domain)["id"]  # type: ignore[index]

    def update(**settings: Any) -> dict[str, Any]:
        return hook.update_website(id_of("a.example"), **settings)

    def privacy(**settings: Any) -> Any:
        return normalize("privacy", update(**settings)["privacy"])

    def is_set(name: str, value: Any, other: Any) -> bool:
        before, after = update(**{name: value}), update(**{name: other})
        return str(before.get(name)) != str(after.get(name))

    def operator(operator_type: type, **arguments: Any) -> Any:
        return execute(operator_type, task_id="step", **arguments)

    def favorites(wanted: bool) -> set[str]:
        return {website["domain"] for website in hook.list_websites(favorite=wanted)}

    def is_gone(domain: str) -> bool:
        return hook.find_website(domain) is None

    def delete(domain: str) -> bool:
        hook.delete_website(id_of(domain))
        return True

    def write(key: str, operator_type: type, expected: Any = True, **arguments: Any) -> bool:
        return bool(operator(operator_type, **arguments)[key] == expected)

    return {
        "Test button": lambda: hook.test_connection()[0],
        "account": lambda: hook.get_account()["id"],
        "account operator": lambda: operator(GetAccountOperator)["id"],
        "create": lambda: hook.create_website("a.example")["id"],
        "create with settings": lambda: hook.create_website(
            "b.example", privacy="private", email=True, exclude_bots=False, exclude_ips=["192.0.2.1"]
        )["id"],
        "ensure an existing website": lambda: hook.ensure_website("a.example")["id"] == id_of("a.example"),
        "ensure a new website": lambda: hook.ensure_website("c.example")["id"],
        "show": lambda: hook.get_website(id_of("a.example"))["domain"] == "a.example",
        "look up": lambda: hook.find_website("none.example") is None,
        "list": lambda: len(hook.list_websites()) == 3,
        "list from the oldest": lambda: [row["domain"][0] for row in hook.list_websites(sort="asc")] == ["a", "b", "c"],
        "list by domain": lambda: [row["domain"][0] for row in hook.list_websites(sort_by="domain")] == ["c", "b", "a"],
        "search": lambda: [row["domain"] for row in hook.list_websites(search="b.exam")] == ["b.example"],
        "update privacy": lambda: is_set("privacy", "private", "public"),
        "update email": lambda: is_set("email", True, False),
        "update exclude_bots": lambda: is_set("exclude_bots", False, True),
        "update favorite to false and true": lambda: is_set("favorite", False, True),
        "favorites": lambda: favorites(True) == {"a.example"},
        "others": lambda: favorites(False) == {"b.example", "c.example"},
        "set a password": lambda: privacy(privacy="password", password="secret-of-a-page") == "password",
        "privacy back to public": lambda: privacy(privacy="public") == "public",
        "set a list": lambda: update(exclude_ips=["192.0.2.1", "2001:db8::1"])["exclude_ips"],
        "empty a list": lambda: not update(exclude_ips=[]).get("exclude_ips"),
        "set a long list": lambda: update(exclude_ips=LONG_LIST)["exclude_ips"],
        "create operator": lambda: write("created", CreateWebsiteOperator, domain="d.example", privacy="private"),
        "create operator again": lambda: write("created", CreateWebsiteOperator, False, domain="d.example"),
        "create operator, update": lambda: write(
            "verified", CreateWebsiteOperator, domain="d.example", email_reports=True, if_exists="update"
        ),
        "get operator": lambda: operator(GetWebsiteOperator, domain="a.example")["domain"] == "a.example",
        "list operator": lambda: len(operator(ListWebsitesOperator, favorite=True)) == 1,
        "update operator": lambda: write("verified", UpdateWebsiteOperator, domain="a.example", privacy="private"),
        "update operator, favorite": lambda: write(
            "verified", UpdateWebsiteOperator, domain="b.example", favorite=True
        ),
        "delete operator": lambda: write("deleted", DeleteWebsiteOperator, domain="d.example") and is_gone("d.example"),
        "sync addresses": lambda: write("applied", SyncExcludedIpsOperator, 2, exclude_ips=["203.0.113.7"], **lists),
        "sync addresses again": lambda: write(
            "applied", SyncExcludedIpsOperator, 0, exclude_ips=["203.0.113.7"], **lists
        ),
        "sync parameters": lambda: write("applied", SyncExcludedParamsOperator, 2, exclude_params=["gclid"], **lists),
        "sync fewer parameters": lambda: write(
            "applied", SyncExcludedParamsOperator, 2, exclude_params=["fbclid"], **lists
        ),
        "plan": lambda: write("creates", PlanWebsitesOperator, 1, **code),
        "apply": lambda: write("applied", ApplyWebsitesOperator, 2, **code),
        "plan after apply": lambda: write("updates", PlanWebsitesOperator, 0, **code),
        "drift": lambda: operator(CheckDriftOperator, **code) is not None,
        "export": lambda: operator(ExportWebsitesOperator, output_path=str(folder / "websites.yaml")),
        "snapshot": lambda: write("count", SnapshotWebsitesOperator, 4, base_path=str(folder / "snapshots")),
        "delete": lambda: delete("c.example") and is_gone("c.example"),
        "create a deleted domain": lambda: hook.ensure_website("c.example")["id"],
    }
