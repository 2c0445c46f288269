# SPDX-License-Identifier: Apache-2.0
"""Folders of websites files: each file is read or named in an error, and untrusted files read nothing else.

``prune`` would delete the websites of a file that is left out. A hostile file costs the worker little memory and time.
"""

from __future__ import annotations

import os
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow_versions import attach
from reconciling import Night

from airflow_provider_analytics.api.entries import Addresses
from airflow_provider_analytics.commands import main
from airflow_provider_analytics.reconcile.desired import yaml_values
from airflow_provider_analytics.reconcile.desired.list_lines import EntryList, merge_lists, read_list
from airflow_provider_analytics.reconcile.desired.websites_file import parse_websites, parse_websites_files
from airflow_provider_analytics.storage import MAX_TEXT_BYTES, StoragePath, read_texts

#: Less than the real limit, so that the tests are quick.
LIMIT = 20_000
TOO_MANY = rf"there are too many \w+ up to here. Allowed: at most {LIMIT:,} in all files"


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_values, "MAX_VALUES", LIMIT)


def parse(text: str) -> Any:
    return parse_websites_files({"websites.yaml": text})


def aliases(levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]" for level in range(1, levels)]
    return "\n".join([*lines, "websites: {}"])


def layers(entries: int, websites: int) -> str:
    """A list of all websites, to which each adds its own entry."""
    listed = ", ".join(f"10.0.{number // 256}.{number % 256}" for number in range(entries))
    own = "".join(f"  w{number}.example: {{also_exclude_ips: [192.0.2.1]}}\n" for number in range(websites))
    return f"defaults: {{exclude_ips: [{listed}]}}\nwebsites:\n{own}"


def groups(number: int, times: int, item: str = "192.0.2.1") -> str:
    """A website that names each of some groups several times."""
    listed = "".join(
        f"  g{element}: {{also_exclude_ips: [{item.format(element // 256, element % 256)}]}}\n"
        for element in range(number)
    )
    named = ", ".join(f"g{item}" for item in range(number))
    return f"groups:\n{listed}websites:\n  a.example: {{groups: [{', '.join([named] * times)}]}}\n"


@pytest.mark.parametrize(
    "text",
    [
        aliases(40),
        layers(300, 300),
        f"defaults: {{exclude_ips: [{'a,' * 5_000_000}]}}\nwebsites: {{}}",
        groups(75, 3, ", ".join(f"192.0.2.{item}" for item in range(100))),
    ],
    ids=["aliases of aliases", "defaults of many websites", "many values", "groups"],
)
@pytest.mark.parametrize("read", [parse, parse_websites])
@pytest.mark.usefixtures("limit")
@pytest.mark.long
@pytest.mark.chosen(5)
def test_small_file_that_expands_enormously_is_rejected(text: str, read: Callable[[str], Any]) -> None:
    tracemalloc.start()
    with pytest.raises(ValueError, match=rf"(websites\.yaml|config):\d+: {TOO_MANY}"):
        read(text)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1000 * LIMIT + 2 * len(text)


@pytest.mark.usefixtures("limit")
def test_files_of_a_folder_share_the_same_budget() -> None:
    half = layers(100, 120)
    assert len(parse(half).websites) == 120
    with pytest.raises(ValueError, match=rf"b\.yaml:\d+: {TOO_MANY}") as caught:
        parse_websites_files({name: half.replace("  w", f"  {name}") for name in ("a.yaml", "b.yaml", "c.yaml")})
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("value", ["9" * 20_000, f"0x{'f' * 20_000}", f"1{':59' * 20_000}", f"1{':59' * 20_000}.0"])
def test_number_of_many_digits_is_a_problem_with_its_line(value: str) -> None:
    with pytest.raises(ValueError, match=r"websites\.yaml:3: .* is not allowed. Allowed: true, false"):
        parse(f"websites:\n  a.example:\n    email: {value}\n")


def a_comment(form: str, part: str) -> Callable[[int], Any]:
    """Four times as much is in longer lines."""

    def read(number: int) -> Any:
        length = 16_000 if number > 1 else 500
        lines = [f"192.0.2.1 # {form.format(part * length)}"] * (32_000 * number // length)
        return read_list("x", lines, Addresses())

    return read


def wrong_names(number: int) -> Any:
    groups = "".join(f"  group_{item:06}: {{}}\n" for item in range(150 * number))
    websites = "".join(f"  w{item}.example: {{groups: [grup_{item:06}]}}\n" for item in range(150 * number))
    return parse(f"groups:\n{groups}websites:\n{websites}")


@pytest.mark.parametrize(
    "read",
    [
        *(
            pytest.param(a_comment(form, part), id=f"a comment: {form}, {part!r}")
            for form in ("a{}b", "owner{}=a", "owner=a{}b", "until{}x")
            for part in (" ", "until ")
        ),
        pytest.param(wrong_names, id="wrong names"),
        pytest.param(lambda number: parse(groups(1_500 * number, 1, "10.0.{}.{}")), id="groups of a website"),
        pytest.param(
            lambda number: merge_lists([EntryList(lines={"": ("# a",)})] * 20_000 * number), id="lists with comments"
        ),
        pytest.param(
            lambda number: read_list("x", [{"comment": "a"}] * 20_000 * number, Addresses(), managed=False),
            id="comments of a list",
        ),
    ],
)
@pytest.mark.long
@pytest.mark.chosen(4)
def test_parse_time_grows_linearly_with_the_length(read: Callable[[int], Any]) -> None:
    """A comment of 16,000 blanks took 12.8 s, and a group that was named repeatedly took 86 s."""

    def seconds(number: int) -> float:
        started = time.process_time()
        with suppress(ValueError):
            read(number)
        return time.process_time() - started

    assert seconds(4) < 8 * seconds(1) + 0.5


@pytest.mark.parametrize("read", [parse, parse_websites])
@pytest.mark.parametrize("line", ["%TAG !{}! tag:example.com,2026:", "%TAG ! !", "%OTHER {}"])
@pytest.mark.parametrize("line_break", ["\n", "\r", "\r\n", "\x85", "\u2028", "\n\ufeff"])
def test_directives_are_rejected_before_the_file_is_parsed(
    line: str, line_break: str, read: Callable[[str], Any]
) -> None:
    """1.6 MB of directives took 20 s, in which no timeout could stop the task."""
    directives = line_break.join(["# a comment", *(line.format(f"a{number}") for number in range(40_000))])
    started = time.process_time()
    with pytest.raises(ValueError, match=r"(websites\.yaml|config):[12]: the directive %(TAG|OTHER) is not allowed"):
        read(f"{directives}\n---\nwebsites: {{}}\n")
    assert time.process_time() - started < 1


def test_file_can_start_with_its_yaml_version_and_contain_percent_signs() -> None:
    text = "%YAML 1.1\n---\nwebsites:\n  a.example:\n    exclude_params:\n      - '%a'\n"
    assert len(parse(text).websites) == 1


def test_largest_file_has_room_for_ten_thousand_websites() -> None:
    website = "  website-00000.shop.example.com: {privacy: private, email: false, groups: [office, staging, germany],\n"
    website += "    also_exclude_ips: [{entry: 203.0.113.100, owner: 'web team', until: 2026-12-31}],\n"
    website += "    exclude_params: [utm_source, utm_medium, utm_campaign, gclid, fbclid], exclude_bots: true}\n"
    assert 10_000 * len(website) < MAX_TEXT_BYTES <= 4_000_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text("websites: {of-another.example: {}}")
    folder = tmp_path / "websites"
    folder.mkdir()
    (folder / "a.yaml").write_text("websites: {1.example: {}}")
    return folder


@pytest.mark.parametrize(
    ("plant", "problem"),
    [
        (lambda file: file.symlink_to("../secret"), "a link that leads outside its folder"),
        (lambda file: file.symlink_to("/dev/zero"), "a link that leads outside its folder"),
        (os.mkfifo, "a device or a pipe. Allowed: a text file"),
        (
            lambda file: file.write_text("#" * (MAX_TEXT_BYTES + 1)),
            f"too large: all files of a folder together can have {MAX_TEXT_BYTES:,} bytes",
        ),
    ],
    ids=["another file", "a device behind a link", "FIFO", "large"],
)
def test_files_outside_of_the_folder_are_not_read(
    plant: Callable[[Path], object], problem: str, folder: Path, night: Night, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(folder / "b.yaml")
    assert main(["validate", str(folder)]) == main(["validate", str(folder / "b.yaml")]) == 1
    assert capsys.readouterr().out.count(f"{folder / 'b.yaml'}:1:1: cannot be read: it is {problem}") == 2
    for path in (folder, folder / "b.yaml"):
        with pytest.raises(AirflowFailException, match=rf"b\.yaml:1: cannot be read: it is {problem}"):
            night.plan(config_path=str(path))
    with pytest.raises(AirflowFailException, match=f"b.yaml' cannot be read: it is {problem}"):
        night.sync(exclude_ips=None, exclude_ips_path=str(folder / "b.yaml"))
    assert not [request for request in night.sandbox.requests if request.body]


def test_link_within_the_folder_is_followed(folder: Path) -> None:
    """Kubernetes mounts the files of a ConfigMap in this way."""
    (folder / "..2026").mkdir()
    (folder / "..data").symlink_to("..2026")
    (folder / "..2026" / "c.yaml").write_text("websites: {c.example: {}}")
    (folder / "c.yaml").symlink_to("..data/c.yaml")
    assert main(["validate", str(folder)]) == main(["validate", str(folder / "c.yaml")]) == 0


def test_missing_file_of_the_folder_is_an_error_and_not_a_deletion(folder: Path, night: Night) -> None:
    """A person renames the target of a link: the websites of that file must not be deleted."""
    night.add(20)
    (folder / "b.yaml").symlink_to("renamed.yaml")
    assert main(["validate", str(folder)]) == 1
    with pytest.raises(AirflowFailException, match=r"b\.yaml:1: cannot be read: No such file or directory"):
        night.plan(config_path=str(folder), prune=True, override_guards=["many_deleted"])


@pytest.mark.parametrize("text", ["[" * 5000, "a: &a [*a]", "&a {*a: 1}", "{" * 5000, '{"websites": [[]]}'])
def test_deep_nesting_is_an_error_that_names_the_file(text: str) -> None:
    with pytest.raises(ValueError, match=r"websites\.yaml"):
        parse(text)


def test_key_of_the_file_cannot_forge_a_line_of_the_error() -> None:
    with pytest.raises(ValueError, match=r"websites\.yaml:2") as caught:
        parse('websites:\n  "a.example\\nERROR forged\\e[31m": {"no\\nERROR forged": 1}\n')
    assert "\nERROR" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("output", ["text", "github", "gitlab"])
@pytest.mark.parametrize("content", [b"websites: {a.example: {privcy: 1}}", b"\xff", b"websites: {a.example: {}}"])
def test_file_name_cannot_forge_a_workflow_command(
    output: str, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names = ["a\n::error::forged\x1b[31m.yaml", "::error::forged.yaml", "a%0A::error::forged.yaml"]
    for name in names:
        Path(name).write_bytes(content)
    for path in (".", *names[:1]):
        main(["validate", path, "--format", output])
    printed = "".join(capsys.readouterr())
    assert not [line for line in printed.splitlines() if line.startswith("::error::")]
    assert "\x1b" not in printed
    if output == "github" and b"privcy" in content:
        assert "file=./a%250A%3A%3Aerror%3A%3Aforged.yaml," in printed


def test_files_of_a_folder_share_one_limit(folder: Path) -> None:
    for name in ("a.yaml", "b.yaml"):
        (folder / name).write_text("#" * (MAX_TEXT_BYTES * 2 // 3))
    texts = read_texts(StoragePath.of(str(folder)), "config_path", lambda _folder, names: names)
    assert len(str(texts["a.yaml"])) == MAX_TEXT_BYTES * 2 // 3
    assert "too large: all files of a folder together" in str(texts["b.yaml"])


WEBSITE = "websites: {%s.example: {}}"


def plant(folder: Path, name: str) -> None:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(WEBSITE % 2)


@pytest.mark.parametrize("name", ["b.yml", "b.YAML", "b.Yml"])
def test_folder_is_read_with_all_endings_of_yaml(name: str, folder: Path, night: Night) -> None:
    night.add(3)
    plant(folder, name)
    result = night.apply(config_path=str(folder), prune=True, override_guards=["many_deleted"])
    assert result["deletes"] == 1
    assert [website["domain"] for website in night.sandbox.websites()] == ["1.example", "2.example"]


@pytest.mark.parametrize(
    "name", ["team/d.yaml", "team/eu/d.YML", "d.yaml.bak", "d.yaml~", "d.yml.j2", "d.yaml.disabled", "d.json", "D.JSON"]
)
def test_folder_fails_if_a_file_with_websites_would_be_left_out(
    name: str, folder: Path, night: Night, capsys: pytest.CaptureFixture[str]
) -> None:
    night.add(3)
    plant(folder, name)
    assert main(["validate", str(folder)]) == 1
    assert name in capsys.readouterr().err
    with pytest.raises(AirflowFailException, match=rf"{name} would not be read, but might contain websites"):
        night.apply(config_path=str(folder), prune=True, override_guards=["many_deleted"])
    assert len(night.sandbox.websites()) == 3


def test_folder_fails_if_a_linked_folder_contains_websites(folder: Path, night: Night, tmp_path: Path) -> None:
    plant(tmp_path, "elsewhere/d.yaml")
    (folder / "team").symlink_to(tmp_path / "elsewhere")
    (folder / "loop").symlink_to(folder.parent)
    with pytest.raises(AirflowFailException, match=r"team/d\.yaml would not be read"):
        night.plan(config_path=str(folder))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("name", ["b.yaml", "team/d.yaml"])
def test_folder_fails_if_a_file_cannot_be_read_for_lack_of_permission(name: str, folder: Path, night: Night) -> None:
    plant(folder, name)
    (folder / name.partition("/")[0]).chmod(0)
    with pytest.raises(Exception, match="Permission denied"):
        night.plan(config_path=str(folder))


def test_folder_ignores_files_that_contain_no_websites(folder: Path, night: Night) -> None:
    for name in (
        "README.md",
        "CODEOWNERS",
        ".git/config.yaml",
        ".gitlab-ci.yml",
        ".b.yaml.swp",
        "a.yaml~",
        "#a.yaml#",
        "websites.schema.json",
        "scripts/check.py",
        "state/plans/1.json",
        "yaml",
        "b.yamllint",
        "b.txt",
    ):
        plant(folder, name)
    night.add(1)
    assert night.plan(config_path=str(folder))["websites_compared"] == 1
    assert main(["validate", str(folder)]) == 0


def test_object_storage_fails_if_a_file_with_websites_would_be_left_out(memory: Any, night: Night) -> None:
    attach("memory", memory)
    night.add(3)
    memory.pipe_file("/files/a.yaml", (WEBSITE % 1).encode())
    memory.pipe_file("/files/b.YML", (WEBSITE % 2).encode())
    assert night.plan(config_path="memory://files", prune=True, override_guards=["many_deleted"])["deletes"] == 1
    memory.pipe_file("/files/team/d.yaml", (WEBSITE % 3).encode())
    with pytest.raises(AirflowFailException, match=r"team/d\.yaml would not be read"):
        night.plan(config_path="memory://files", prune=True)
    memory.rm("/files", recursive=True)
