"""The pages of docs/reference that are written from docstrings: operators, hook, exceptions and sandbox."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from airflow_provider_analytics import exceptions
from airflow_provider_analytics.api import fields
from airflow_provider_analytics.get_provider_info import get_provider_info
from airflow_provider_analytics.hooks.analytics import AnalyticsHook
from airflow_provider_analytics.reconcile import chunks
from airflow_provider_analytics.sandbox.server import SandboxServer

#: Section of the page of operators to further functions in it.
_FUNCTIONS: dict[str, list[Callable[..., Any]]] = {
    "airflow_provider_analytics.operators.exclusions": [chunks.chunk_websites],
}
_LINE = 120


def operators() -> Iterator[str]:
    """Yield the reference of the operators and of the functions beside them, by module."""
    for group in get_provider_info()["operators"]:
        for name in group["python-modules"]:
            module = import_module(name)
            found = [one for one in vars(module).values() if _is_public(one, name)]
            title = (module.__doc__ or "").partition("\n")[0].rstrip(".")
            yield from (f"## {title}", "", f"Module `{name}`.", "")
            for one in (*found, *_FUNCTIONS.get(name, ())):
                yield from _entry(one, 3)


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


def _is_public(found: Any, module: str) -> bool:
    is_own = getattr(found, "__module__", None) == module and not found.__name__.startswith("_")
    return is_own and (inspect.isfunction(found) or hasattr(found, "execute"))


def _entry(found: Any, level: int) -> Iterator[str]:
    """Yield heading, description, parameters, return value and errors of a class or a function."""
    text, *parts = re.split(r"^:(?=param |return|raises )", inspect.getdoc(found) or "", flags=re.MULTILINE)
    yield from (f"{'#' * level} {found.__name__}", "")
    if inspect.isfunction(found):
        yield from ("```text", *_signature(found), "```", "")
    yield from (*_markdown(text).splitlines(), "")
    defaults = _defaults(found)
    for field in parts:
        head, _, meaning = " ".join(_markdown(field).split()).partition(": ")
        kind, _, name = head.partition(" ")
        default = f" = `{defaults[name]!r}`" if name in defaults else ""
        label = {"param": f"**`{name}`**{default}", "raises": f"Raises **`{name}`**"}.get(kind, "Returns")
        yield from _wrapped(f"{label}: {meaning}")
    if parts:
        yield ""


def _defaults(found: Any) -> dict[str, Any]:
    """Return the default of each parameter that has one, also of those that a base class declares."""
    classes = reversed(found.__mro__) if inspect.isclass(found) else ()
    functions = [vars(one)["__init__"] for one in classes if "__init__" in vars(one)] or [found]
    parameters = [one for function in functions for one in signature_of(function).parameters.values()]
    # Without classes and factories, which the description has; "no default" is a class, too.
    return {one.name: one.default for one in parameters if not repr(one.default).startswith("<")}


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
    parameters = [one.replace(annotation=one.empty) for one in signature.parameters.values() if one.name != "self"]
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


def _markdown(text: str) -> str:
    """Return the reStructuredText of a docstring as Markdown."""
    text = re.sub(r":\w+:`~?\.?([^`]+)`", r"`\1`", text)
    text = re.sub(r"docs/(?:reference/)?(\w+)\.md", r"[\1](../\1.md)", text)

    def fenced(found: re.Match[str]) -> str:
        before, language, block = found.groups()
        code = textwrap.dedent(block).strip("\n").replace("``", "")
        return "\n".join([f"{before}:\n" if before else "", f"```{language or 'text'}", code, "```", "", ""])

    # A block after ".. code-block:: LANGUAGE", or after "::" at the end of a line or alone in it.
    pattern = r"^(?:\.\. code-block|(.*))::(?: (\w+))?\n\n((?:    .*\n|\n)+)"
    text = re.sub(pattern, fenced, f"{text}\n", flags=re.MULTILINE)
    return re.sub(r"\n{3,}", "\n\n", re.sub(r"(?<!`)``(?!`)", "`", text)).strip()
