"""The probe against every value of every option of the sandbox: ``python tests/support/probe_matrix.py``.

For each row of the table of unknowns, an answer is right, or "cannot tell"; it is never wrong. What the report says of
lists is tried as well: with the extras that it prints, the list is read whole, or refused where the report says so.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args, get_origin

from airflow_provider_analytics.api import client as client_module
from airflow_provider_analytics.api import listing
from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.exceptions import AnalyticsError
from airflow_provider_analytics.probe import report
from airflow_provider_analytics.probe.findings import Finding, findings
from airflow_provider_analytics.probe.seen import Probe
from airflow_provider_analytics.probe.unknowns import UNKNOWNS
from airflow_provider_analytics.sandbox.fields import DEFAULTS
from airflow_provider_analytics.sandbox.options import Options
from airflow_provider_analytics.sandbox.server import SandboxServer

WEBSITES = 253
#: Values of options that are not enumerated, besides those of the table.
FURTHER: Mapping[str, tuple[Any, ...]] = {
    "page_parameter": ("p", "blatt"),
    "list_key": (None, "data.data", "websites"),
    "list_hides": tuple({name} for name in DEFAULTS if name != "password"),
    "page_size_limit": (5, 10, 25, 50),
    "page_offset": (-1, 1),
    "total_offset": (-3, 3, 100),
    "total_cap": (100, 200, 250),
    "row_cap": (50, 100, 150, 200, 250),
    "lists_beside": ("groups",),
    "record_key": (None, "website", "data.website", "data:attributes"),
    "extra_fields": ({"api_token": "{api_key}"}, {"note": "{api_key}"}, {"note": "about {domain}"}),
    "create_status": (200,), "update_status": (202, 204), "delete_status": (204,),
    "reads_behind": (2,),
    "ignored_fields": ({"email"}, {"exclude_ips"}),
    "required_headers": ({"X-Team": "web"},),
}  # fmt: skip
#: Options whose values are sets of words.
SETS = {"ignored", "empty_answers", "message_answers", "echoes", "short_answers"}

#: What else is otherwise with an option: row to value. A row that is None has no right answer but "cannot tell".
BESIDES: tuple[tuple[Mapping[str, Any], Mapping[str, str | None]], ...] = (
    ({"links": "header"}, {"links": "in the header Link"}),
    ({"links": "header", "page_parameter": "p"}, {"pages": "another parameter, not linked by name"}),
    ({"links": "list", "page_parameter": "p"}, {"pages": "another parameter, not linked by name"}),
    ({"metadata": "none", "page_parameter": "p"}, {"pages": "another parameter, not linked by name"}),
    ({"metadata": "none"}, {"links": "nowhere", "total": "no total", "page_number": "none"}),
    ({"list_key": None}, {"links": "nowhere", "total": "no total", "page_number": "none"}),
    ({"paging": "offset", "links": "absent"}, {"pages": "cursor or offset, not linked by name"}),
    ({"paging": "offset"}, {"pages": "cursor or offset, linked by name"}),
    ({"paging": "cursor"}, {"total": "no total", "page_number": "none"}),
    ({"metadata": "flat", "links": "list"}, {"links": "nowhere"}),
    ({"total_offset": -3}, {"total": "something else"}),
    ({"total_offset": 3}, {"total": "something else"}),
    ({"total_offset": 100}, {"total": "something else"}),
    ({"extra_fields": {"note": "{api_key}"}}, {"secrets": "yes"}),
    ({"search_matches": "late"}, {"search": "parts of a domain"}),
    ({"page_offset": 1}, {"page_number": "another one"}),
    ({"page_offset": -1}, {"page_number": "another one"}),
    *(({"list_hides": {name}}, {"row_fields": "fewer"}) for name in DEFAULTS if name != "password"),
)


@dataclass(frozen=True)
class Case:
    """Options of a sandbox, with the value of each row that is right; the others are as in a well-behaved server."""

    name: str
    options: Mapping[str, Any]

    def right(self, row: str) -> set[str | None]:
        """Return the right answers to a row."""
        unknown = next(unknown for unknown in UNKNOWNS if unknown.name == row)
        options = {**self.options}
        besides = [values[row] for given, values in BESIDES if row in values and given.items() <= options.items()]
        if besides:
            return {None, besides[0]}
        played = [value for value in unknown.values if value.options and _plays(value.options, options)]
        # The one that names most options.
        best = max(played, key=lambda value: len(value.options), default=None)
        return {None, best.name} if best else {None, *unknown.assumed}


def _plays(wanted: Mapping[str, Any], options: Mapping[str, Any]) -> bool:
    return all(
        name in options and (value <= options[name] if isinstance(value, set) else _like(name, value, options[name]))
        for name, value in wanted.items()
    )


def _like(name: str, value: Any, given: Any) -> bool:
    """Return whether two values of an option that is not enumerated play the same value."""
    if name in ("total_cap", "row_cap", "page_size_limit", "reads_behind", "page_offset"):
        return given is not None and given != 0
    return bool(value == given) or (name == "page_parameter" and given != "page")


def cases() -> Iterator[Case]:
    """Yield every value of every option, and every value of the table."""
    yield Case("a well-behaved server", {})
    for name, field in Options.model_fields.items():
        for value in _values(name, field.annotation, field.default):
            yield Case(f"{name}={value!r}", {name: value})
    for unknown in UNKNOWNS:
        for value in unknown.values:
            if len(value.options) > 1:
                yield Case(f"{unknown.name}: {value.name}", dict(value.options))
    for links in ("list", "header", "absent"):
        for parameter in ("p", "page"):
            for metadata in ("meta", "flat", "none"):
                options = {"links": links, "page_parameter": parameter, "metadata": metadata}
                yield Case(str(options), options)


def _values(name: str, annotation: Any, default: Any) -> list[Any]:
    if name in FURTHER:
        return [*FURTHER[name]]
    if get_origin(annotation) is Literal:
        return [value for value in get_args(annotation) if value != default]
    if name in SETS:
        return [{word} for word in get_args(get_args(annotation)[0])]
    if annotation is bool:
        return [not default]
    if name == "first_page":
        return [0]
    raise NotImplementedError(f"name values of the option {name}")


def populate(sandbox: SandboxServer, count: int = WEBSITES) -> None:
    """Add websites, a deleted one and a domain that is there twice among them, where the options have such ones."""
    sandbox.seed(count - 2)
    last = sandbox.websites()[-2]
    for website in sandbox.websites()[-3:]:
        if sandbox.options.domain_as != "sent":
            with _client(sandbox) as client, contextlib.suppress(AnalyticsError):
                client.operations.create({"domain": f"new.{website['domain']}"})
    twice = last["domain"] if sandbox.options.allow_duplicates else f"last.{last['domain']}"
    sandbox.add_website(twice, exclude_ips="192.0.2.1\n198.51.100.7\n2001:db8::1", favorite=True)
    if sandbox.options.deletes == "mark":
        with _client(sandbox) as client:
            client.operations.delete(str(sandbox.websites()[-3]["id"]))


def _client(sandbox: SandboxServer, **settings: Any) -> AnalyticsClient:
    return AnalyticsClient(_settings(sandbox, **settings))


def _settings(sandbox: SandboxServer, **settings: Any) -> Settings:
    headers = dict(sandbox.options.required_headers)
    return Settings(base_url=sandbox.url, api_key=sandbox.api_key, headers=headers, max_retries=0, **settings)


@dataclass(frozen=True)
class Tried:
    """What the probe said in a case.

    :param wrong: answers that are wrong, or promises that are not kept.
    """

    case: Case
    found: list[Finding]
    requests: int
    wrong: list[str]


def try_case(sandbox: SandboxServer, case: Case, *, wrong_key: bool = True) -> Tried:
    """Probe a sandbox with the options of a case."""
    sandbox.reset()
    sandbox.configure(**case.options)
    populate(sandbox)
    sandbox.clear_requests()
    with Probe(_settings(sandbox)) as probe:
        seen = probe.run(wrong_key=wrong_key)
    found = findings(seen)
    wrong = [
        f"{one.unknown.name}: {one.value!r}, right is {case.right(one.unknown.name) - {None}}"
        for one in found
        if one.value not in case.right(one.unknown.name)
    ]
    requests = len(sandbox.requests)
    if any(request.method != "GET" for request in sandbox.requests):
        wrong.append("a request that is no read")
    if requests > 15 or requests != seen.requests:
        wrong.append(f"{requests} requests, said {seen.requests}")
    wrong += _promise(sandbox, found)
    return Tried(case, found, requests, wrong)


def _promise(sandbox: SandboxServer, found: list[Finding]) -> list[str]:
    """Return what is not true of the lists that the report promises."""
    settings = replace(_settings(sandbox), **report.extras(found))
    is_refused = report.status(found) == report.FAILED
    try:
        with AnalyticsClient(settings) as client:
            read = len(client.list_websites())
    except AnalyticsError as error:
        return [] if is_refused else [f"the list is refused: {error.text}"]
    exist = len(sandbox.websites())
    return [] if read == exist else [f"{read} of {exist} websites were read"]


def main(arguments: list[str] | None = None) -> int:
    """Print the table of rows; return 1 if an answer was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0] if __doc__ else None)
    parser.parse_args(arguments)
    client_module.CONFIRM_WAITS = ()
    listing.WAITS_BETWEEN_READINGS = (0, 0, 0)
    right: collections.Counter[str] = collections.Counter()
    untold: collections.Counter[str] = collections.Counter()
    wrong: list[str] = []
    tried, most = 0, 0
    with SandboxServer() as sandbox:
        for case in cases():
            outcome = try_case(sandbox, case)
            tried += 1
            most = max(most, outcome.requests)
            wrong += [f"{case.name}: {what}" for what in outcome.wrong]
            for one in outcome.found:
                (untold if one.value is None else right)[one.unknown.name] += 1
    lines = [f"{'':16}{'right':>7}{'cannot tell':>13}{'wrong':>7}"]
    for unknown in UNKNOWNS:
        name = unknown.name
        failed = sum(f": {name}: " in what for what in wrong)
        lines.append(f"{name:16}{right[name] - failed:7}{untold[name]:13}{failed:7}")
    lines += [f"  WRONG {what}" for what in wrong]
    lines.append(f"{tried} servers, at most {most} requests, {len(wrong)} wrong answers or promises")
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
