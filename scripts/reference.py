# SPDX-License-Identifier: Apache-2.0
"""The pages of docs/reference that are written from docstrings: operators, hook, exceptions and sandbox."""

from __future__ import annotations

import argparse
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any

from airflow_provider_analytics import commands, exceptions
from airflow_provider_analytics.api import fields
from airflow_provider_analytics.get_provider_info import get_provider_info
from airflow_provider_analytics.hooks.analytics import AnalyticsHook
from airflow_provider_analytics.sandbox.server import SandboxServer

#: Item of a list of keys in a docstring, with its type, an example, and its meaning.
_KEY = re.compile(r"`(\w+)` \((.+?), such as `(.+?)`\): (.+)\.")
_LINE = 120
_WRITTEN = "<!-- Written by `make generate` from the docstrings. -->"


def operator_modules() -> list[str]:
    """Return the names of the modules of operators, in the order of the provider info."""
    return [name for group in get_provider_info()["operators"] for name in group["python-modules"]]


def operators(name: str) -> Iterator[str]:
    """Yield the reference page of a module of operators: its operators, and the functions beside them."""
    module = import_module(name)
    title = re.sub(r" \(docs/[^)]*\)", "", (module.__doc__ or "").partition("\n")[0]).rstrip(".")
    short = name.rpartition(".")[2]
    yield from (f"# {short.replace('_', ' ').capitalize()}", "", f"{title}. Module: `{name}`.", "")
    yield from (_WRITTEN, "")
    public = [found for found in vars(module).values() if _is_public(found, name)]
    for found in public:
        yield from _entry(found, 2, folder="../../")


def operator_index() -> Iterator[str]:
    """Yield the page that lists the operators and the functions of each module."""
    yield from (
        "# Operator reference",
        "",
        "Look up the arguments, return values, and errors of each operator. Each operator also accepts the arguments",
        "of every Airflow task, such as `retries` and `pool`. For a guide, see [operators](../../operators.md).",
        "",
        _WRITTEN,
        "",
        "| Page | Contains |",
        "|---|---|",
    )
    for name in operator_modules():
        public = [found.__name__ for found in vars(import_module(name)).values() if _is_public(found, name)]
        short = name.rpartition(".")[2]
        links = ", ".join(f"[`{found}`]({short}.md#{found.lower()})" for found in public)
        yield f"| [{short.replace('_', ' ').capitalize()}]({short}.md) | {links} |"


def hook() -> Iterator[str]:
    """Yield the reference of the hook and its methods."""
    yield from _entry(AnalyticsHook, 2)
    for name, found in vars(AnalyticsHook).items():
        method = found.fget if isinstance(found, property) else found
        if inspect.isfunction(method) and not name.startswith("_"):
            yield from _entry(method, 3)


def sandbox() -> Iterator[str]:
    """Yield the reference of the server for tests."""
    yield from _entry(SandboxServer, 2)


def raised() -> Iterator[str]:
    """Yield the reference of the exceptions."""
    yield from (*_markdown(inspect.getdoc(exceptions) or "").partition("\n\n")[2].splitlines(), "")
    for found in vars(exceptions).values():
        if inspect.isclass(found) and issubclass(found, exceptions.AnalyticsError):
            yield from _entry(found, 2)


def command_line() -> Iterator[str]:
    """Yield the reference of the commands: usage, description and arguments, as their parsers define them."""
    for name, description in commands.COMMANDS.items():
        parser = argparse.ArgumentParser(prog=f"airflow-provider-analytics {name}", description=description)
        import_module(f"{commands.__name__}.{name}").add_arguments(parser)
        arguments = [action for action in parser._actions if not isinstance(action, argparse._HelpAction)]
        usage = " ".join([parser.prog, *(_usage(action) for action in arguments)])
        yield from (f"## {name}", "", parser.description or "", "", "```text", *_wrapped(usage, "    "), "```", "")
        yield from ("| Argument | Required | Meaning |", "|---|---|---|")
        for action in arguments:
            label = " ".join(filter(None, [*action.option_strings, _value(action)]))
            meaning = ((action.help or "") % {"default": action.default}).replace("|", r"\|")
            yield f"| `{label}` | {'yes' if _is_required(action) else 'no'} | {meaning} |"
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
    return is_own and (inspect.isfunction(found) or hasattr(found, "execute"))


def _entry(found: Any, level: int, folder: str = "../") -> Iterator[str]:
    """Yield heading, description, parameters, return value and errors of a class or a function.

    :param folder: the folder docs/ from the page, for its links.
    """
    text, *parts = re.split(r"^:(?=param |return|raises )", inspect.getdoc(found) or "", flags=re.MULTILINE)
    yield from (f"{'#' * level} {found.__name__}", "")
    if inspect.isfunction(found):
        yield from ("```text", *_signature(found), "```", "")
    yield from (*_markdown(text, folder).splitlines(), "")
    defaults = _defaults(found)
    arguments: dict[str, str] = {}
    results: list[str] = []
    keys: list[str] = []
    errors: list[str] = []
    for field in parts:
        field, *items = re.split(r"^ +\* ", field, flags=re.MULTILINE)
        keys += [" ".join(_markdown(item, folder).split()) for item in items]
        head, _, meaning = " ".join(_markdown(field, folder).split()).partition(": ")
        kind, _, name = head.partition(" ")
        if kind == "param":
            arguments[name] = meaning
        elif kind == "raises":
            errors.append(f"Raises **`{name}`**: {meaning}")
        else:
            results.append(f"Returns: {meaning}")
    if arguments:
        yield from _arguments(arguments, defaults)
    if keys:
        yield from (*results, "", *_keys(keys), "")
        results = []
    for line in (*results, *errors):
        yield from _wrapped(line)
    if results or errors:
        yield ""


def _arguments(arguments: Mapping[str, str], defaults: Mapping[str, Any]) -> Iterator[str]:
    """Yield the table of arguments, the required ones first."""
    yield from ("| Argument | Default | Meaning |", "|---|---|---|")
    for name in sorted(arguments, key=lambda name: name in defaults):
        default = f"`{defaults[name]!r}`" if name in defaults else "**required**"
        yield f"| `{name}` | {default} | {arguments[name].replace('|', chr(92) + '|')} |"
    yield ""


def _keys(items: Iterable[str]) -> Iterator[str]:
    """Yield the table of the keys of a return value."""
    yield from ("| Key | Type | Example | Meaning |", "|---|---|---|---|")
    for item in items:
        found = _KEY.fullmatch(item)
        if found is None:
            raise ValueError(f"Not a key with type, example, and meaning: {item}")
        key, kind, example, meaning = found.groups()
        yield f"| `{key}` | {kind} | `{example}` | {meaning} |"


def _defaults(found: Any) -> dict[str, Any]:
    """Return the default of each parameter that has one, also of those that a base class declares."""
    classes = reversed(found.__mro__) if inspect.isclass(found) else ()
    functions = [vars(class_)["__init__"] for class_ in classes if "__init__" in vars(class_)] or [found]
    parameters = [parameter for function in functions for parameter in signature_of(function).parameters.values()]
    # Without classes and factories, which the description has; "no default" is a class, too.
    return {
        parameter.name: parameter.default for parameter in parameters if not repr(parameter.default).startswith("<")
    }


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """Return a function's signature, with the keyword arguments of a ``TypedDict`` one by one, as editors show them."""
    signature = inspect.signature(function)
    parameters = []
    for parameter in signature.parameters.values():
        declared = re.fullmatch(r"Unpack\[(\w+)\]", str(parameter.annotation))
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
    text = re.sub(r"docs/((?:reference/)?(\w+)\.md)", rf"[\2]({folder}\1)", text)

    def fenced(found: re.Match[str]) -> str:
        before, language, block = found.groups()
        code = textwrap.dedent(block).strip("\n").replace("``", "")
        return "\n".join([f"{before}:\n" if before else "", f"```{language or 'text'}", code, "```", "", ""])

    # A block after ".. code-block:: LANGUAGE", or after "::" at the end of a line or alone in it.
    pattern = r"^(?:\.\. code-block|(.*))::(?: (\w+))?\n\n((?:    .*\n|\n)+)"
    text = re.sub(pattern, fenced, f"{text}\n", flags=re.MULTILINE)
    return re.sub(r"\n{3,}", "\n\n", re.sub(r"(?<!`)``(?!`)", "`", text)).strip()
