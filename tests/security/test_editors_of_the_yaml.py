"""Whoever may edit the file of websites: cannot make the worker run out of memory by it."""

from __future__ import annotations

import tracemalloc

import pytest

from airflow_provider_analytics.reconcile.websites_file import MAX_ALIASED, parse_websites, parse_websites_file


def bomb(levels: int, end: str) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]" for level in range(1, levels)]
    return "\n".join([*lines, end])


@pytest.mark.parametrize("levels", [6, 9, 40])
@pytest.mark.parametrize("parse", [parse_websites_file, parse_websites])
def test_aliases_of_aliases_are_refused_before_they_are_expanded(levels: int, parse: object) -> None:
    text = bomb(levels, "websites: {}")
    tracemalloc.start()
    with pytest.raises(ValueError, match=f"aliases stand for more than {MAX_ALIASED:,} values"):
        parse(text, "websites.yaml")  # type: ignore[operator]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5_000_000


def test_an_alias_that_is_used_many_times_is_allowed() -> None:
    lines = ["groups:", "  office: &office {exclude_ips: ['192.0.2.1', '192.0.2.2']}", "  other: *office", "websites:"]
    lines += [f"  w{number}.example: {{groups: [office]}}" for number in range(500)]
    found = parse_websites_file("\n".join(lines), "websites.yaml")
    assert len(found.websites) == 500
    lists = ["defaults: {exclude_params: &list [a, b, c]}", "websites:"]
    lists += [f"  w{number}.example: {{exclude_params: *list}}" for number in range(500)]
    assert len(parse_websites_file("\n".join(lists), "websites.yaml").websites) == 500


@pytest.mark.parametrize("text", ["[" * 5000, "a: &a [*a]", "&a {*a: 1}", "{" * 5000, '{"websites": [[]]}'])
def test_no_nesting_ends_in_anything_but_an_error_that_names_the_file(text: str) -> None:
    with pytest.raises(ValueError, match=r"websites\.yaml"):
        parse_websites_file(text, "websites.yaml")


def test_no_key_of_the_file_forges_a_line_of_the_error() -> None:
    text = 'websites:\n  "a.example\\nERROR forged\\e[31m": {"no\\nERROR forged": 1}\n'
    with pytest.raises(ValueError, match=r"websites\.yaml:2") as caught:
        parse_websites_file(text, "websites.yaml")
    assert "\nERROR" not in str(caught.value)
    assert "\x1b" not in str(caught.value)
