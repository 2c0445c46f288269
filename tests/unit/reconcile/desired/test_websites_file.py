# SPDX-License-Identifier: Apache-2.0
"""Websites file: parsing, problems, plans, and exports (``reconcile/desired/websites_file.py``)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shelf import websites

from airflow_provider_analytics.exceptions import DomainError
from airflow_provider_analytics.reconcile.desired.desired_state import WebsitesAsCode
from airflow_provider_analytics.reconcile.desired.websites_export import export_websites
from airflow_provider_analytics.reconcile.desired.websites_file import parse_websites, parse_websites_files
from airflow_provider_analytics.reconcile.plan.changes import Plan, plan_changes
from airflow_provider_analytics.reconcile.plan.plan_markdown import to_markdown

FILE = """\
defaults: {privacy: private, exclude_ips: [203.0.113.7]}
groups:
  shops: {email: true, also_exclude_params: [gclid]}
  loud: {email: false, exclude_bots: false}
websites:
  www.example.com:
  shop.example.com:
    groups: [shops]
    privacy: password
    password_from: "variable:page_password"
    also_exclude_ips:
      - 2001:DB8::1
    favorite: true
  both.example.com: {groups: [shops, loud], exclude_bots: true, exclude_ips: []}
"""


def parse(text: str, default_mode: str = "replace") -> WebsitesAsCode:
    return parse_websites_files({"websites.yaml": text}, default_mode)


def settings(text: str) -> dict[str, Any]:
    return {website.domain: dict(website.settings) for website in parse(text).websites}


def problems(call: Callable[..., Any], *arguments: Any) -> list[str]:
    """Return the lines of the error that a call raises."""
    with pytest.raises(ValueError, match=r"\w") as raised:
        call(*arguments)
    assert "hunter2" not in str(raised.value)
    return str(raised.value).splitlines()


def test_websites_override_groups_and_groups_override_defaults() -> None:
    assert settings(FILE) == {
        "www.example.com": {"privacy": "private", "exclude_ips": ("203.0.113.7",)},
        "shop.example.com": {
            "privacy": "password",
            "password_from": "variable:page_password",
            "email": True,
            "exclude_params": ("gclid",),
            "exclude_ips": ("203.0.113.7", "2001:db8::1"),
            "favorite": True,
        },
        "both.example.com": {
            "privacy": "private",
            "email": False,
            "exclude_bots": True,
            "exclude_params": ("gclid",),
            "exclude_ips": (),
        },
    }
    assert next(item.compared for item in parse(FILE).websites) == ["privacy", "exclude_ips"]


def test_every_problem_is_reported_with_its_line() -> None:
    text = """\
defaults:
  privcy: private
  password: hunter2
groups:
  shops:
    email: perhaps
    also_exclude_ips: [203.0.113.7, 300.1.1.1]
websites:
  www.example.com:
    groups: [shosp]
  WWW.example.com.:
    exclude_params:
  "https://x.example":
  12.5:
colour: red
"""
    assert problems(parse, text) == [
        "websites.yaml:2: privcy is not known. The closest is 'privacy'.",
        "websites.yaml:3: password: passwords are not allowed in the file. Use password_from",
        "websites.yaml:6: email='perhaps' is not allowed. Allowed: true, false",
        "websites.yaml:7: also_exclude_ips: '300.1.1.1' is not an IP address",
        "websites.yaml:10: there is no group shosp. The closest is 'shops'.",
        "websites.yaml:11: WWW.example.com. is a duplicate of websites.yaml:9",
        "websites.yaml:12: exclude_params is empty",
        "websites.yaml:13: domain='https://x.example' is not allowed. Allowed: a domain name such as www.example.com, "
        "without scheme, port, path, or spaces",
        "websites.yaml:14: the key '12.5' is not text. Write it in quotes",
        "websites.yaml:15: colour is not known. Allowed: networks, modes, defaults, groups, websites",
    ]


def website(settings: str) -> str:
    return f"websites:\n  a.example: {{{settings}}}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ":1: websites.yaml is empty"),
        ("websites:\n  a.example: {\n", ":3: invalid YAML"),
        ("websites: &a\n  x.example: *a\n", r":2: invalid YAML: found undefined alias \*a"),
        ("websites: !!python/object/apply:os.system ['true']\n", ":1"),
        ("defaults: {}\n", "Allowed: settings by name, and websites"),
        ("- a.example\n", r"\(value not shown\) is not allowed. Allowed: settings by name"),
        ("websites:\n  a.example:\n    exclude_ips: {{ office }}\n", ":3: a template in {{ }} is not rendered"),
        ("websites:\n  !office a.example: {}\n", ":2: the tag !office is not supported"),
        ("websites:\n  a.example: {exclude_ips: [!!binary aGk=]}\n", ":2: the tag !!binary is not supported"),
        ("websites: {a.example: {}, a.example: {}}", ":1: a.example is a duplicate of line 1"),
        ("websites:\n  '*.example': {protect: true, privacy: private}\n", ":2: .*is a pattern"),
        ("websites:\n  '*.example': {protect: false}\n", ":2: protect=False is not allowed"),
        (
            "websites:\n" + "".join(f"  '*{number}.example': {{protect: true}}\n" for number in range(1001)),
            "there are 1,001 patterns up to here. Allowed: at most 1,000",
        ),
        (website("email: !x y"), ":2: the tag !x is not supported"),
        (website("exclude_params: !reference [.common, params]"), ":2: the tag !reference is not supported"),
        (website("exclude_params: !Env {a: b}"), ":2: the tag !Env is not supported"),
        ("websites: !include_dir\n  a.example: {}\n", ":1: the tag !include_dir is not supported"),
        ("websites: !!omap\n  - a.example: {}\n", ":1: the tag tag:yaml.org,2002:omap is not supported"),
        ('{"websites": {"a.example": {"ignore": ["\\ud83d\\ude00"]}, "a.example": {}}}', "a.example is a duplicate"),
        (website("email: 2026-13-45"), ":2: .*cannot be read"),
        (website("password_from: x"), r":2: password_from \(value not shown\) is not allowed"),
        (
            website("exclude_ips: [{entry: 1.1.1.1, until: 2027-01-31}]"),
            '"until": "2027-01-31"} has an expiration date',
        ),
        (website("exclude_ips: [1:2:3:4:5:6:7:8]"), r"exclude_ips=\d+ is not allowed. Allowed: text, in quotes if"),
        (website("exclude_ips: [10.0.0.0/24]"), "is a network"),
        *(
            (website(f"exclude_ips: {item}"), r"has no entries: write \[\] to clear the list, or leave it out")
            for item in ("['']", "''", '"\\uFEFF\\r\\n"', "['# c']")
        ),
    ],
)
def test_unreadable_websites_files_are_rejected(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(text)


def test_problems_of_all_files_are_reported() -> None:
    texts = {"a.yaml": website("privcy: 1"), "b.yaml": "websites: [\n", "c.yaml": website("email: 0xff")}
    lines = problems(parse_websites_files, texts)
    assert [line.partition(": ")[0] for line in lines] == [
        "a.yaml:2",
        "b.yaml:2",
        "c.yaml:2",
        "c.yaml:2",
    ]  # a duplicate, too


def test_error_contains_the_first_twenty_problems_and_counts_the_others() -> None:
    lines = problems(parse, "websites:\n" + "".join(f"  {number}.example: {{privcy: 1}}\n" for number in range(30)))
    assert len(lines) == 21
    assert lines[-1] == "and 10 more problems"


def test_websites_file_can_reuse_groups_by_yaml_anchors() -> None:
    text = "defaults: {privacy: private}\ngroups: {a: &a {email: true}, b: *a}\nwebsites: {x.example: {groups: [b]}}\n"
    assert settings(text) == {"x.example": {"privacy": "private", "email": True}}


#: A record with every field of the table, in forms that a service might return.
RECORD = {
    **websites(1)[0],
    "domain": "www.example.com",
    "privacy": "1",
    "email": 0,
    "exclude_bots": True,
    "favorite": "false",
    "exclude_params": None,
    "exclude_ips": "9.9.9.9 # Ann\r\n::ffff:203.0.113.7",
}


def plan(text: str, *records: dict[str, Any], prune: bool = False) -> Plan:
    return plan_changes(replace(parse(text), prune=prune).resolve(records), records)


def test_plan_changes_only_named_fields_that_differ() -> None:
    text = "websites: {WWW.example.com.: {privacy: private, exclude_ips: [203.0.113.7, 9.9.9.9]}}"
    assert plan(text, RECORD).changes == ()
    text = "websites: {www.example.com: {privacy: public, favorite: true, email: false, exclude_ips: [203.0.113.7]}}"
    (change,) = plan(text, RECORD).changes
    assert change.website == "www.example.com (id 1)"
    assert change.settings == {"privacy": "public", "favorite": True, "exclude_ips": ["::ffff:203.0.113.7"]}
    # A field that no record has might be omitted because it is empty: only other values are sent.
    (change,) = plan(text, {"id": 1, "domain": "www.example.com"}).changes
    assert change.settings == {"favorite": True, "exclude_ips": ["203.0.113.7"]}


def test_new_websites_need_privacy_and_protected_websites_need_a_password() -> None:
    text = """\
websites:
  new.example:
  secret.example: {privacy: password}
  www.example.com: {privacy: password}
  shown.example: {privacy: password, email: true}
"""
    lines = problems(plan, text, RECORD, {"id": 2, "domain": "shown.example", "privacy": 2, "email": 0})
    assert [line.split(" ")[1] for line in lines] == ["new.example", "secret.example", "www.example.com"]
    assert "public statistics page" in lines[0]
    password = {"privacy": "password", "password_from": "variable:page_password"}
    open_one = {"privacy": "public", "favorite": False, "exclude_ips": []}
    for domain, given_, sent in (
        ("new.example", open_one, {"privacy": "public"}),
        ("new.example", password, password),
        ("www.example.com", password, password),
    ):
        (change,) = plan(json.dumps({"websites": {domain: given_}}), RECORD).changes
        assert change.settings == sent


@pytest.mark.parametrize("privacy", ["privacy: public, ", ""])
def test_password_of_a_website_needs_privacy_password(privacy: str) -> None:
    password = "password_from: variable:page_password"
    text = f"websites:\n  new.example: {{{privacy}{password}}}\n"
    [line] = problems(parse, text)
    assert line.startswith("websites.yaml:2: privacy=")
    assert "with another privacy, a password has no effect" in line
    # One password for all protected websites of a file.
    parse(f"defaults: {{{password}, privacy: password}}\nwebsites: {{a.example: {{privacy: public}}, b.example: }}")


def test_duplicates_on_the_server_and_records_without_a_domain_are_rejected() -> None:
    text = "websites:\n  www.example.com: {privacy: private}\n"
    several = "websites.yaml:2: several websites have the domain www.example.com: ids 1, 2"
    assert problems(plan, text, RECORD, {**RECORD, "id": 2, "domain": "WWW.Example.com"})[0].startswith(several)
    # A record without a domain might be any website that would be created; it prevents nothing else.
    assert plan(text, RECORD, {"id": 7}, prune=True).changes == ()
    with pytest.raises(ValueError, match=r"website 7 has no domain: it might be www\.example\.com"):
        plan(text, {"id": 7})


def test_websites_are_divided_by_their_state_in_the_file() -> None:
    text = "websites: {WWW.Example.COM: {}, '*.Customer.example': {protect: true}, '*bücher.x': {protect: true}}"
    deleted = {"id": 2, "domain": "b.example"}
    protected = [
        {"id": 3, "domain": "a.customer.EXAMPLE"},
        {"id": 4, "domain": "http://odd"},
        {"id": 5, "domain": "*.x"},
    ]
    protected.append({"id": 6, "domain": "altebücher.X"})
    desired = replace(parse(text), prune=True).resolve([RECORD, deleted, *protected])
    assert [record["id"] for record in (RECORD, deleted, *protected) if desired.is_compared(record)] == [1, 2]
    assert desired.deleted_ids == {"2"}
    assert desired.protected == [
        "a.customer.EXAMPLE (id 3): *.Customer.example is protected",
        "http://odd (id 4): its domain is not allowed in a file",
        "*.x (id 5): its domain is not allowed in a file",
        "altebücher.X (id 6): *bücher.x is protected",
    ]
    assert plan(text, RECORD, prune=True).warnings == (
        "*.Customer.example is protected, but no website matches it",
        "*bücher.x is protected, but no website matches it",
    )
    assert not replace(parse(text), prune=False).resolve([deleted]).is_compared(deleted)


def test_ignored_field_is_sent_on_create_and_not_changed_afterwards() -> None:
    text = "defaults: {ignore: [privacy]}\nwebsites: {www.example.com: {privacy: public, email: true, ignore: [email]}}"
    assert plan(text, RECORD).changes == ()
    (created,) = plan(text).changes
    assert created.settings == {"privacy": "public", "email": True}


def test_create_only_mode_changes_no_existing_website() -> None:
    file = parse("websites: {www.example.com: {privacy: public}, b.example: {privacy: private}}")
    with pytest.raises(ValueError, match="prune=True and create_only=True are not allowed together"):
        replace(file, prune=True, create_only=True)
    records = [RECORD, {**RECORD, "id": 2}]
    (change,) = plan_changes(replace(file, create_only=True).resolve(records), records).changes
    assert (change.action, change.domain) == ("create", "b.example")


@pytest.mark.parametrize(
    "value",
    [
        {"websites": {"a.example": {"privacy": "private", "email": True, "exclude_ips": ["1.1.1.1", "2.2.2.2"]}}},
        [{"domain": "a.example", "privacy": 1, "email": 1, "exclude_ips": "1.1.1.1\r\n2.2.2.2\r\n", "favorite": None}],
        {"defaults": {"privacy": "1"}, "websites": [{"domain": "a.example", "email": "true",
                                                     "exclude_ips": ("\ufeff1.1.1.1", "", "2.2.2.2")}]},
        '[{"domain": "a.example", "privacy": "private", "email": true, "exclude_ips": ["1.1.1.1", "2.2.2.2"]}]',
        "[{'domain': 'a.example', 'privacy': 'private', 'email': True, 'exclude_ips': ['1.1.1.1', '2.2.2.2']}]",
    ],
    ids=["a dict", "records", "records with defaults", "JSON", "the text of Python values"],
)  # fmt: skip
def test_same_websites_from_any_source_have_the_same_plan(value: Any) -> None:
    text = "websites: {a.example: {privacy: private, email: true, exclude_ips: [1.1.1.1, 2.2.2.2]}}"
    record = {"id": 1, "domain": "a.example", "privacy": 0, "email": 0, "exclude_ips": None}
    assert plan_changes(parse_websites(value).resolve([record]), [record]).digest == plan(text, record).digest


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([{"privacy": 1}], r"config websites: row 1 has no domain\. Its columns: 'privacy'"),
        ([{"domain;privacy": "a.example;public"}] * 20, r"row 1 has no domain\. Its columns: 'domain;privacy'"),
        ([{"Domain": "a.example"}], r"Its columns: 'Domain'\. Allowed: the column 'domain'"),
        ([{"\ufeffdomain": "a.example"}], r"Its columns: '\\ufeffdomain'"),
        ([{"domain": "a.example"}, {"domain": 7}], r"row 2 has no domain\. The domain is 7"),
        ([{"domain": "a.example"}, "b.example"], r"row 2 has no domain\. It is 'b\.example'"),
        (
            [{"domain": "a.example"}, {"domain": "a.example"}],
            r"config row 1, websites\.a\.example: row 2 is a duplicate",
        ),
        (
            [{"domain": "b.example"}, {"domain": "a.example", "privcy": 1}],
            r"config row 2, websites\.a\.example\.privcy: .*The closest is 'privacy'",
        ),
        ('[{"domain": "a.example", "privacy": 7}]', r"config row 1, websites\.a\.example\.privacy: "),
        ([{"domain": "a.example", "privacy": 7}], r"a\.example\.privacy: privacy=7 is not allowed. Allowed: public"),
        ([{"domain": "a.example", "email": "yes"}], r"\.email: email='yes' is not allowed. Allowed: true, false"),
        ({"websites": {7: {}}}, "config websites: the key 7 is not text"),
        (7, "config: config=7 is not allowed. Allowed: settings by name"),
        ("{", r"config:2: neither JSON \(.*\) nor YAML \(invalid YAML"),
        ('{"domain": "a.example"}\n{"domain": "b.example"}', r"neither JSON \(Extra data: line 2"),
    ],
)
def test_problems_of_values_name_their_line(value: Any, message: str) -> None:
    assert re.search(message, "\n".join(problems(parse_websites, value)))


def test_rows_of_databases_and_data_frames_can_contain_their_number_types() -> None:
    numbers = {"privacy": Decimal(1), "email": 1.0, "favorite": float("nan"), "exclude_bots": None}
    (website,) = parse_websites([{"domain": "a.example", **numbers}]).websites
    assert website.settings == {"privacy": "private", "email": True}


TEXTS = st.sampled_from(
    ["1.1.1.1", "::ffff:2.2.2.2", "10.0.0.0/24", "2001:DB8::1 # x", "# y", "nonsense", "a b", "", " 3.3.3.3 "]
)
RECORDS = st.lists(
    st.fixed_dictionaries(
        {"domain": st.sampled_from([f"{letter}.example" for letter in "abcdef"])},
        optional={
            "privacy": st.sampled_from([0, 1, 2, "1", 7, None]),
            "email": st.sampled_from([0, 1, True, "0"]),
            "exclude_bots": st.sampled_from([0, 1]),
            "favorite": st.sampled_from([True, False, "true", 1, None]),
            "exclude_params": st.none() | st.lists(TEXTS, max_size=3).map("\r\n".join) | st.lists(TEXTS, max_size=3),
            "exclude_ips": st.none() | st.lists(TEXTS, max_size=4).map("\n".join) | st.just(7),
            "created_at": st.just("2026-01-01"),
        },
    ),
    max_size=5,
    unique_by=lambda record: record["domain"],
).map(lambda records: [{"id": number, **record} for number, record in enumerate(records, start=1)])


@hypothesis.settings(deadline=None, max_examples=60)
@given(records=RECORDS)
def test_export_is_valid_and_its_plan_is_empty(records: list[dict[str, Any]]) -> None:
    text, *_ = export_websites(records, origin="a test")
    assert plan(text, *records, prune=True).changes == ()


def test_export_names_the_settings_that_it_omits() -> None:
    odd = {"id": 2, "domain": "http://broken"}
    records = [{**RECORD, "privacy": 2, "exclude_ips": "10.0.0.0/24", "exclude_params": "a,b"}, odd]
    text, _, left_out = export_websites(records, origin="https://stats.example.com")
    head = [line for line in text.splitlines() if line.startswith("#")]
    assert "ids, statistics, passwords" in head[1]
    assert "id 2: omitted" in head[2]
    unusable = "exclude_params omitted, 'a,b' has several entries or is cut off"
    assert f"www.example.com: {unusable}" in head[3]
    assert len(left_out) == 2
    # Settings that the file cannot express are not deleted.
    pruned = plan(text, {**RECORD, "privacy": 2}, odd, prune=True)
    assert pruned.count("delete") == 0
    assert "Not in the file, but protected (1): `http://broken (id 2): its domain is not" in to_markdown(pruned)
    assert head[4].startswith("# Passwords of 1: set password_from before they are created again")
    assert head[4].endswith(": www.example.com")
    assert "networks: as_is" in text
    with pytest.raises(DomainError, match="ids 1, 3"):
        export_websites([RECORD, {**RECORD, "id": 3}], origin="x")


COMMENTED = """\
defaults:
  privacy: private
  exclude_ips: [{comment: all}, {entry: 203.0.113.7, comment: office}, 203.0.113.8, {comment: "# end of all"}]
websites:
  a.example:
    also_exclude_ips: [{comment: a}, 203.0.113.9, {comment: end of a}]
"""
EVERY_LINE = "# all\n203.0.113.7 # office\n203.0.113.8\n# a\n203.0.113.9\n## end of all\n# end of a"


@pytest.mark.parametrize(
    ("record", "lines"),
    [
        (None, EVERY_LINE),
        ({}, EVERY_LINE),
        ({"exclude_ips": "203.0.113.8 # mine"}, "203.0.113.8 # mine\n203.0.113.7 # office\n203.0.113.9"),
        ({"exclude_ips": "203.0.113.9\n203.0.113.8\n203.0.113.7"}, None),
    ],
    ids=["no website", "list not shown", "other comment", "all entries"],
)
def test_comments_are_sent_with_added_entries(record: dict[str, Any] | None, lines: str | None) -> None:
    records = [] if record is None else [{"id": 1, "domain": "a.example", "privacy": 1, **record}]
    changes = plan_changes(parse(COMMENTED).resolve(records), records).changes
    sent = [field.after for change in changes for field in change.fields if field.field == "exclude_ips"]
    assert sent == ([tuple(lines.splitlines())] if lines else [])


LIST = "websites:\n  a.example:\n    exclude_ips:\n"


@pytest.mark.parametrize("entry", ["2001:db8::", "2001:db8:: # office", "::", "fe80::: office"])
@pytest.mark.parametrize("more", ["", "      - 192.0.2.1\n"])
def test_unquoted_address_that_ends_with_a_colon_is_one_problem(entry: str, more: str) -> None:
    (problem,) = problems(parse, f"{LIST}      - {entry}\n{more}")
    assert re.fullmatch(r"websites\.yaml:4: \S*:: is a key for YAML, .* write the entry in quotes", problem)


@pytest.mark.parametrize("written", ["[2001:db8::]", "2001:db8::", "{entry: 2001:db8::}"])
def test_error_for_an_unquoted_text_with_a_colon_advises_to_quote_it(written: str) -> None:
    (problem,) = problems(parse, f"websites:\n  a.example:\n    exclude_ips: {written}\n")
    assert "Write a text in quotes" in problem


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("websites:\n\ta.example:\n", 2, "a tab. Use spaces"),
        ("websites:\n  a.example:\n\t  email: true\n", 3, "a tab. Use spaces"),
        ("websites:\n  a.example:\n    groups:\n    -\tshops\n", 4, "a tab. Use spaces"),
        ("websites:\n  a.example: @x\n", 2, "'@'. Write the text in quotes"),
        ("websites:\n  *.a.example: {protect: true}\n", 2, "Write a text in quotes if it starts with '*'"),
    ],
)
def test_invalid_yaml_is_explained(text: str, line: int, problem: str) -> None:
    (shown,) = problems(parse, text)
    assert shown.startswith(f"websites.yaml:{line}: invalid YAML: ")
    assert problem in shown


@pytest.mark.parametrize("value", ["*x", "{email: true}", "[*x]"])
def test_error_for_a_merge_key_advises_to_use_a_group(value: str) -> None:
    text = f"websites:\n  x.example: &x {{email: true}}\n  a.example:\n    <<: {value}\n"
    (problem,) = problems(parse, text)
    assert problem == (
        "websites.yaml:4: << is not supported: put the shared settings into groups, and give the websites these groups"
    )


@pytest.mark.parametrize(
    "text",
    [
        f"{LIST}      - 7\n",
        f"{LIST}      - {{entri: 192.0.2.1}}\n",
        "groups: [a]\nwebsites: {a.example: {groups: [a]}}\n",
        "networks: all\nwebsites: {a.example: {exclude_ips: [192.0.2.0/24]}}\n",
        "modes: {exclude_ips: foo}\nwebsites: {a.example: {exclude_ips: [{entry: 192.0.2.1, until: 2027-01-31}]}}\n",
        "modes: []\nwebsites: {a.example: {exclude_ips: [{entry: 192.0.2.1, comment: x}]}}\n",
    ],
)
def test_consequence_of_a_problem_is_not_reported_separately(text: str) -> None:
    assert len(problems(parse, text)) == 1


def test_mode_managed_needs_a_table_only_for_lists_that_a_website_sets() -> None:
    assert parse("websites: {a.example: {exclude_ips: [1.1.1.1]}}", "managed").managed == ["exclude_ips"]
    assert parse("websites: {a.example: {privacy: private}}", "managed").managed == []


def test_export_has_each_entry_once() -> None:
    record = {**RECORD, "exclude_ips": "192.0.2.1 # Ann\n192.0.2.1 # Bob"}
    text, *_ = export_websites([record], origin="test")
    assert text.count("192.0.2.1") == 1


@pytest.mark.parametrize("restore", [False, True])
def test_export_omits_a_list_without_a_usable_line(restore: bool) -> None:
    text, _, omitted = export_websites([{**RECORD, "exclude_ips": "a\x07b"}], origin="test", restore=restore)
    assert "exclude_ips: []" not in text
    assert any("exclude_ips omitted, 1 of its 1 lines are not usable" in problem for problem in omitted)


@pytest.mark.parametrize(
    "reason",
    ["office \U0001f600", "a\u2028b", "a\tb", "a\u0085b", "x" * 2000],
    ids=["emoji", "line separator", "tab", "next line", "long"],
)
@pytest.mark.parametrize("is_ascii", [True, False])
def test_json_is_read_as_json(reason: str, is_ascii: bool) -> None:
    value = {"websites": {"a.example": {"exclude_ips": [{"entry": "192.0.2.1", "reason": f"{reason}!"}]}}}
    text = json.dumps(value, ensure_ascii=is_ascii, indent="\t")
    if len(reason.splitlines()) > 1:
        assert "reason is not a text of one line" in problems(parse_websites, text)[0]
        return
    (website,) = parse_websites(text, default_mode="managed").websites
    assert website.lists["exclude_ips"].sources["192.0.2.1"].reason == f"{reason}!"


@pytest.mark.parametrize("text", ["{a.example: {}}", '{"a.example": {}, }'])
def test_text_that_is_almost_json_is_read_as_yaml(text: str) -> None:
    assert [website.domain for website in parse_websites(f'{{"websites": {text}}}').websites] == ["a.example"]


def test_problems_of_rows_are_in_the_order_of_the_rows() -> None:
    rows = [{"domain": f"{number}.example", "privacy": "privat"} for number in range(1, 13)]
    found = problems(parse_websites, rows)
    assert [int(problem.split()[2].removesuffix(",")) for problem in found] == list(range(1, 13))


def test_half_of_a_character_in_json_is_rejected() -> None:
    assert "invalid YAML" in problems(parse_websites, '{"websites": {"a.example": {"exclude_ips": ["\\ud83d"]}}}')[0]
