# SPDX-License-Identifier: Apache-2.0
"""The pages of docs/reference that are written from docstrings: of operators, functions, classes, and commands."""

from __future__ import annotations

import argparse
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from airflow_provider_analytics import SITE, commands, exceptions
from airflow_provider_analytics.api import fields
from airflow_provider_analytics.get_provider_info import get_provider_info
from airflow_provider_analytics.hooks.analytics import AnalyticsHook
from airflow_provider_analytics.sandbox.server import SandboxServer
from airflow_provider_analytics.snapshots.catalog import (
    Entry,
    Snapshot,
    list_snapshots,
    newest_snapshot,
    read_snapshot,
)
from airflow_provider_analytics.snapshots.retention import remove_snapshot

_DOCS = Path(__file__).parents[1] / "docs"
#: Module of operators to the title of its page; a guide has another title.
_TITLES = {
    "account": "Account operators",
    "exclusions": "Exclusion list operators",
    "snapshots": "Snapshot operators",
    "task_groups": "Task groups",
    "websites": "Website operators",
    "websites_as_code": "Websites as code operators",
}
#: Methods that a reader of the hook's page does not need, because only this package and Airflow use them.
_NOT_LISTED = {"where", "describe", "client", "get_conn"}
#: The meaning of an argument that another entry of the page explains.
_SEE = re.compile(r"see `(\w+)`\.")
#: A default in the meaning of an argument that repeats the one before it.
_REPEATED = (
    re.compile(r"(\(default `'?([^`]+?)'?`\): .*)[;,] default `?\2`?(?=[.:])"),
    re.compile(r"(\(default `'?([^`]+?)'?`\): .*?\2[`\"]*) \(default\)"),
)
#: Attributes of every exception, which the head of the page describes.
_OF_EVERY_ERROR = {"problem", "remedy", "permanent", "before_retry"}
#: Attributes of exceptions from which only this package builds its messages and decisions.
_OF_MESSAGES = {
    "check", "excerpt", "facts", "follows_success", "is_blocked", "is_garbled", "is_invalid", "is_limited", "method",
    "path", "request", "seen", "sent", "source", "transient", "waited",
}  # fmt: skip
#: Number of arguments in common from which an entry refers to an earlier entry of its page.
_MANY = 2
#: Item of a list of keys in a docstring, with its type, an example, and its meaning.
_KEY = re.compile(r"`\w+` \(.+?, such as `.+?`\): .+\.")
#: Example of a value that its type tells as well.
_EMPTY_EXAMPLE = re.compile(r", such as `(?:null|true|false|\d+|\"[\d-]+\"|\[\])`(?=\):)")
_LINE = 120
_OF_EVERY_OPERATOR = (
    "Each operator also accepts the arguments of every Airflow task and, if it calls the service, `analytics_conn_id` "
    "(default `analytics_default`). The arguments on these pages can be templates, except `asset`. A wrong argument "
    "or connection fails the task without a retry."
)
#: Arguments of several operators, whose rows on the other pages are shorter.
_SHARED = {
    "approved_digest": "the `digest` of a plan, or the output of an `ApprovalOperator` whose form contains it.",
    "domain": "must match exactly, except for case, a trailing dot, and punycode.",
    "max_loss_fraction": "the [limit of the guards](../../guards.md#limits), checked from 10 items on.",
    "override_guards": "names of [guards](../../guards.md), as a list or separated by commas.",
    "password_from": "the place of a [password](../../operators.md#arguments), because Airflow displays arguments.",
    "snapshot_name": "names the folder of the snapshots in `base_path`.",
    "state_path": "the [state folder](../../exclusions.md#the-state-folder): list tables, plans, and audit trails.",
}
_OF_ALL = "See also the [arguments of all operators](index.md)."
_TEMPLATED = " (templated)"
_CONNECTION = "id of a connection of type `analytics`." + _TEMPLATED
_WRITTEN = "<!-- Written by `make generate` from the docstrings. -->"


def operator_modules() -> list[str]:
    """Return the names of the modules of operators, in the order of the provider info."""
    return [name for group in get_provider_info()["operators"] for name in group["python-modules"]]


def operators(name: str) -> Iterator[str]:
    """Yield the reference page of a module of operators: its operators, and the functions beside them."""
    module = import_module(name)
    title = (module.__doc__ or "").partition("\n")[0].rstrip(".")
    yield from (f"# {_TITLES[name.rpartition('.')[2]]}", "", f"{title}. Module: `{name}`.", "")
    yield from (_OF_ALL, "")
    yield from (_WRITTEN, "")
    public = [found for found in vars(module).values() if _is_public(found, name)]
    page = _Page("../../")
    for found in public:
        yield from page.entry(found, 2)


def operator_index() -> Iterator[str]:
    """Yield the page that lists the operators and the functions of each module."""
    yield from (
        "# Operator reference",
        "",
        "Look up the arguments, return values, and errors of each operator. To find the operator for your task, see",
        "[choose an operator](../../operators.md).",
        "",
        *textwrap.wrap(_OF_EVERY_OPERATOR, _LINE),
        "",
        "Several operators have these arguments:",
        "",
        *(f"* `{name}`: {meaning}" for name, meaning in _SHARED.items()),
        "",
        "The pages:",
        "",
        _WRITTEN,
        "",
    )
    for name in operator_modules():
        short = name.rpartition(".")[2]
        title = (import_module(name).__doc__ or "").partition("\n")[0].rstrip(".")
        yield f"* [{_TITLES[short]}]({short}.md): {title[0].lower()}{title[1:]}"


def hook() -> Iterator[str]:
    """Yield the reference of the hook and its methods."""
    page = _Page("../")
    yield from page.entry(AnalyticsHook, 2)
    yield from page.methods(AnalyticsHook)


def snapshot_functions() -> Iterator[str]:
    """Yield the reference of the functions that read and remove snapshots, and of the classes that they return."""
    page = _Page("../")
    for function in (read_snapshot, newest_snapshot, list_snapshots, remove_snapshot):
        yield from page.entry(function, 2)
    for found in (Snapshot, Entry):
        yield from _Page("../", is_returned=True).entry(found, 2)
        yield from page.methods(found)


def sandbox() -> Iterator[str]:
    """Yield the reference of the server for tests."""
    yield from _Page("../").entry(SandboxServer, 2)


def raised() -> Iterator[str]:
    """Yield the reference of the exceptions: all of them, and those with attributes that a caller can use."""
    yield from (*_markdown(inspect.getdoc(exceptions) or "").partition("\n\n")[2].splitlines(), "")
    for found in vars(exceptions).values():
        if inspect.isclass(found) and issubclass(found, exceptions.AnalyticsError):
            entry = list(_Page("../", is_returned=True).entry(found, 2))
            if any(line.startswith("* ") for line in entry):
                yield from entry


def command_line() -> Iterator[str]:
    """Yield the reference of the commands: usage, description and arguments, as their parsers define them."""
    for name, description in commands.COMMANDS.items():
        parser = argparse.ArgumentParser(prog=f"airflow-provider-analytics {name}", description=description)
        import_module(f"{commands.__name__}.{name}").add_arguments(parser)
        arguments = [action for action in parser._actions if not isinstance(action, argparse._HelpAction)]
        usage = " ".join([parser.prog, *(_usage(action) for action in arguments)])
        yield from (f"## {name}", "", parser.description or "", "", "```sh", *_wrapped(usage, "    "), "```", "")
        for action in arguments:
            label = " ".join(filter(None, [*action.option_strings, _value(action)]))
            yield f"* `{label}`: {(action.help or '') % {'default': action.default}}."
        yield ""


def _usage(action: argparse.Action) -> str:
    words = " ".join(filter(None, [*action.option_strings[:1], _value(action)]))
    return words if _is_required(action) else f"[{words}]"


def _value(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    if action.metavar:
        return str(action.metavar)
    return f"{{{','.join(action.choices)}}}" if action.choices else action.dest.upper()


def _is_required(action: argparse.Action) -> bool:
    return action.required and action.nargs != "?"


def _is_public(found: Any, module: str) -> bool:
    is_own = getattr(found, "__module__", None) == module and not found.__name__.startswith("_")
    is_own = is_own and found.__name__ not in _NOT_LISTED
    return is_own and (inspect.isfunction(found) or hasattr(found, "execute"))


class _Page:
    """The entries of a page.

    :param folder: the folder docs/ from the page, for its links.
    :param is_returned: the entries are classes, such as exceptions, of which readers only use the attributes.
    """

    def __init__(self, folder: str, *, is_returned: bool = False) -> None:
        self._folder = folder
        self._is_returned = is_returned
        #: Each row of arguments to the first entry that has it.
        self._printed: dict[str, str] = {}

    def entry(self, found: Any, level: int, *, is_attribute: bool = False) -> Iterator[str]:
        """Yield heading, description, arguments, return value and errors of a class or a function."""
        text, *parts = re.split(r"^:(?=param |return|raises )", inspect.getdoc(found) or "", flags=re.MULTILINE)
        yield from (f"{'#' * level} {found.__name__}", "")
        if inspect.isfunction(found) and not is_attribute:
            yield from ("```python", *_signature(found), "```", "")
        yield from (*_markdown(text, self._folder).splitlines(), "")
        arguments: dict[str, str] = {}
        results: list[str] = []
        keys: list[str] = []
        errors: list[str] = []
        for part in parts:
            field, *items = re.split(r"^ +\* ", part, flags=re.MULTILINE)
            keys += [" ".join(_markdown(item, self._folder).split()) for item in items]
            head, _, meaning = " ".join(_markdown(field, self._folder).split()).partition(": ")
            kind, _, name = head.partition(" ")
            if meaning == _CONNECTION:
                continue
            if kind == "param":
                arguments[name] = meaning.removesuffix(_TEMPLATED)
            elif kind == "raises":
                errors += _wrapped(f"`{name}`: {meaning}")
            else:
                results.append(f"Returns: {meaning}")
        if self._is_returned:
            yield from _attributes(arguments)
        elif arguments:
            together = keywords_of(found)
            arguments = {f"**{name}" if name in together else name: text for name, text in arguments.items()}
            optional = {f"**{name}": "" for name in together}
            yield from self._arguments(found.__name__, arguments, defaults_of(found) | optional)
        for result in results:
            yield from (*textwrap.wrap(result, _LINE), "")
        if keys:
            yield from (*_keys(keys), "")
        if errors:
            yield from ("Raises:", "", *errors, "")

    def methods(self, found: type) -> Iterator[str]:
        """Yield the entries of the public methods and properties of a class."""
        for name, member in vars(found).items():
            method = member.fget if isinstance(member, property) else member
            if inspect.isfunction(method) and not name.startswith("_") and name not in _NOT_LISTED:
                yield from self.entry(method, 3, is_attribute=isinstance(member, property))

    def _arguments(self, entry: str, arguments: Mapping[str, str], defaults: Mapping[str, str]) -> Iterator[str]:
        """Yield the list of arguments, the required ones first, without many that an earlier entry has as well."""
        rows = {}
        for name in sorted(arguments, key=lambda name: name in defaults):
            rows[name] = f"* `{name}`{_default(name, defaults)}: {arguments[name]}"
        repeated: dict[str, list[str]] = {}
        for name, row in rows.items():
            reference = _SEE.fullmatch(arguments[name])
            earlier = reference[1] if reference else self._printed.get(row, "")
            repeated.setdefault(earlier, []).append(name)
        repeated.pop("", None)
        repeated = {earlier: names for earlier, names in repeated.items() if len(names) >= _MANY}
        left_out = {name for names in repeated.values() for name in names}
        own = [row for name, row in rows.items() if name not in left_out]
        for row in own:
            self._printed.setdefault(row, entry)
        for repeated_default in _REPEATED:
            own = [repeated_default.sub(r"\1", row) for row in own]
        for earlier, names in repeated.items():
            listed = ", ".join(f"`{name}`" for name in names)
            own += _wrapped(f"The same as in [`{earlier}`](#{earlier.lower()}): {listed}.")
        yield from ("Arguments:", "", *own, "")


def _attributes(arguments: Mapping[str, str]) -> Iterator[str]:
    """Yield the list of the attributes of a class, without those of every exception and those of its message."""
    left_out = _OF_EVERY_ERROR | _OF_MESSAGES
    own = {name: meaning for name, meaning in arguments.items() if name not in left_out}
    for name, meaning in own.items():
        yield from _wrapped(f"`{name}`: {meaning}")
    if own:
        yield ""


def _default(name: str, defaults: Mapping[str, str]) -> str:
    """Return the words about the default of an argument; none for None, because its meaning says what None does."""
    if name not in defaults:
        return " (required)"
    if defaults[name] in ("", "None"):
        return ""
    return f" (default `{defaults[name]}`)"


def _keys(items: Iterable[str]) -> Iterator[str]:
    """Yield the list of the keys of a return value, without examples that say nothing."""
    for item in items:
        if _KEY.fullmatch(item) is None:
            raise ValueError(f"Not a key with type, example, and meaning: {item}")
        yield f"* {_EMPTY_EXAMPLE.sub('', item)}"


def defaults_of(found: Any) -> dict[str, str]:
    """Return the default of each parameter that has one, as text, also of those that only a base class declares.

    The nearest class decides: a parameter that it requires has no default, whatever its base class says.
    """
    classes = reversed(found.__mro__) if inspect.isclass(found) else ()
    functions = [vars(class_)["__init__"] for class_ in classes if "__init__" in vars(class_)] or [found]
    defaults: dict[str, str] = {}
    for function in functions:
        for name, parameter in signature_of(function).parameters.items():
            defaults.pop(name, None)
            if parameter.default is not inspect.Parameter.empty:
                defaults[name] = getattr(parameter.default, "__name__", repr(parameter.default))
    return defaults


def keywords_of(found: Any) -> set[str]:
    """Return the names of keyword arguments that are documented together, such as ``settings`` of ``**settings``."""
    parameters = signature_of(found).parameters.values()
    return {parameter.name for parameter in parameters if parameter.kind is inspect.Parameter.VAR_KEYWORD}


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """Return a function's signature; keyword arguments of a ``TypedDict`` one by one, if they are documented so."""
    signature = inspect.signature(function)
    parameters = []
    for parameter in signature.parameters.values():
        declared = re.fullmatch(r"Unpack\[(\w+)\]", str(parameter.annotation))
        if f":param {parameter.name}:" in (inspect.getdoc(function) or ""):
            declared = None
        types = getattr(vars(fields).get(declared[1] if declared else ""), "__annotations__", {})
        parameters += [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind.__forward_arg__)
            for name, kind in types.items()
        ] or [parameter]
    return signature.replace(parameters=parameters)


def _signature(function: Callable[..., Any]) -> list[str]:
    """Return a function's signature without types, and the type that it returns."""
    signature = signature_of(function)
    parameters = [
        parameter.replace(annotation=parameter.empty)
        for parameter in signature.parameters.values()
        if parameter.name != "self"
    ]
    arguments = str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))
    arguments = re.sub(r"<class '(?:\w+\.)*(\w+)'>", r"\1", arguments)
    whole = f"{function.__name__}{arguments} -> {signature.return_annotation}"
    if len(whole) <= _LINE:
        return [whole]
    return [f"{function.__name__}(", *_wrapped(arguments[1:-1], "    "), f") -> {signature.return_annotation}"]


def _wrapped(text: str, indent: str = "") -> list[str]:
    first = indent or "* "
    return textwrap.wrap(
        text,
        _LINE,
        initial_indent=first,
        subsequent_indent=indent or "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _markdown(text: str, folder: str = "../") -> str:
    """Return the reStructuredText of a docstring as Markdown, for a page from which docs/ is ``folder``."""
    text = re.sub(r":\w+:`~?\.?([^`]+)`", r"`\1`", text)

    def link(found: re.Match[str]) -> str:
        page, heading = found.groups(default="")
        title = (_DOCS / f"{page}.md").read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        return f"[{title}]({folder}{page}.md{heading})"

    text = re.sub(re.escape(SITE) + r"((?:reference/)?\w+)/(#[\w-]+)?", link, text)

    def fenced(found: re.Match[str]) -> str:
        before, language, block = found.groups()
        code = textwrap.dedent(block).strip("\n").replace("``", "")
        return "\n".join([f"{before}:\n" if before else "", f"```{language or 'text'}", code, "```", "", ""])

    # A block after ".. code-block:: LANGUAGE", or after "::" at the end of a line or alone in it.
    pattern = r"^(?:\.\. code-block|(.*))::(?: (\w+))?\n\n((?:    .*\n|\n)+)"
    text = re.sub(pattern, fenced, f"{text}\n", flags=re.MULTILINE)
    return re.sub(r"\n{3,}", "\n\n", re.sub(r"(?<!`)``(?!`)", "`", text)).strip()
