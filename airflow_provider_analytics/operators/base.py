# SPDX-License-Identifier: Apache-2.0
"""Base class of the operators, checks of their arguments by name, and error handling.

A value without a template is checked when the DAG is parsed, and every value after its template was rendered, because
templates and upstream tasks can return anything. The checks need no connection, no storage, and no extra of this
package. Further checks, such as those of addresses, follow where an operator combines its arguments.
"""

from __future__ import annotations

import inspect
import json
import logging
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import (
    AirflowFailException,
    AirflowNotFoundException,
    AirflowSkipException,
    BaseOperator,
    ObjectStoragePath,
)

from airflow_provider_analytics import SITE
from airflow_provider_analytics.api.checks import (
    flag,
    fraction,
    id_of,
    invalid,
    is_missing_text,
    names,
    once,
    one_of,
    whole_number,
)
from airflow_provider_analytics.exceptions import (
    MAX_MESSAGE,
    AnalyticsConfigError,
    AnalyticsError,
    BulkError,
    GuardError,
    StoppedError,
)
from airflow_provider_analytics.guards import parse_guards
from airflow_provider_analytics.readable import is_plain, readable

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_analytics.hooks.analytics import AnalyticsHook

#: A template that was not rendered, or a list or dict that a template rendered as text.
_NOT_RENDERED = re.compile(r"\{\{|\{%|^\s*[\[({].*['\"].*[\])}]\s*$")
_DAY = "a date, YYYY-MM-DD"

#: A placeholder in a path, which Airflow does not replace: a folder with this name would be created.
_UNREPLACED = re.compile(r"\$\{|\$\(|%\(|\{\{")

#: Field to argument, if they differ: every Airflow operator already has an argument ``email``.
ARGUMENTS = {"email": "email_reports", "password": "password_from"}

#: Text argument to a description of its value.
_TEXTS = {
    "analytics_conn_id": "the id of a connection",
    "domain": "a domain name",
    "list_name": "the name of a list",
    "search": "the text to search for",
    "snapshot_name": "the name of the snapshots",
}
#: Text arguments that are never None.
_REQUIRED = ("analytics_conn_id", "snapshot_name")

#: Argument to its allowed values. Values of modules that are slow to import are repeated here; a test compares them.
CHOICES: Mapping[str, Sequence[str | int]] = {
    "exclude_ips_as": ("keep", "hash", "drop"),
    "format": ("jsonl", "csv", "parquet"),
    "if_exists": ("skip", "update", "fail"),
    "mode": ("merge", "replace", "managed"),
    "networks": ("reject", "expand", "as_is"),
    "on_change": ("log", "fail", "skip"),
    "on_drift": ("fail", "skip", "log"),
    "on_late": ("fail", "skip", "publish"),
    "per_page": (10, 25, 50, 100),
    "search_by": ("domain",),
    "sort": ("desc", "asc"),
    "sort_by": ("id", "domain"),
}
#: Arguments of :data:`CHOICES` that can be None.
_OPTIONAL_CHOICES = ("mode", "per_page", "search_by", "sort", "sort_by")
COMPRESSIONS = ("gzip",)
_FLAGS = (
    "create_only",
    "dry_run",
    "html_report",
    "ignore_if_missing",
    "prune",
    "remove_damaged",
    "resolve_names",
)
#: Argument to the attribute that stores it, if it is another one: ``dry_run`` is a method of every operator.
STORED_AS = {"dry_run": "is_dry_run"}
_ARGUMENT_OF = {attribute: argument for argument, attribute in STORED_AS.items()}


#: Starts of a template, unless the DAG has other ones.
_STARTS_OF_TEMPLATES = ("{{", "{%")
#: Keys of ``jinja_environment_kwargs`` with the start of a template.
_START_OPTIONS = ("variable_start_string", "block_start_string", "line_statement_prefix")


def is_literal(value: object, starts: Sequence[str] = _STARTS_OF_TEMPLATES) -> bool:
    """Return whether a value is known when the DAG is parsed: it contains no template, and no output of a task.

    :param starts: texts with which a template starts.
    """
    if isinstance(value, str):
        return not any(map(value.__contains__, starts))
    if isinstance(value, Mapping):
        return all(is_literal(key, starts) and is_literal(inner, starts) for key, inner in value.items())
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(is_literal(inner, starts) for inner in value)
    return value is None or isinstance(value, (bool, int, float, date))


def path_text(value: Any) -> Any:
    """Return the text of a path object; any other value unchanged.

    The text of an ``ObjectStoragePath`` contains its connection id: ``s3://my_conn@bucket/path``.
    """
    if isinstance(value, (os.PathLike, ObjectStoragePath)):
        return str(value)
    return value


def check_value(attribute: str, value: Any) -> None:
    """Check the value of an argument.

    :param attribute: attribute of the operator with the value.
    :raises ValueError: if the value is not allowed; the message names the argument, the value, and the allowed values.
    """
    name = _ARGUMENT_OF.get(attribute, attribute)
    check = _CHECKS.get(name, _check_field)
    if name.endswith("_path"):
        check = _check_place
    check(name, value)


def _check_text(name: str, value: Any, allowed: str = "text") -> None:
    if value is None and name not in _REQUIRED:
        return
    is_text = isinstance(value, str) and value.strip() and is_plain(value)
    if not is_text or is_missing_text(value) or _NOT_RENDERED.search(value):
        raise invalid(name, value, _TEXTS.get(name, allowed))


def _check_place(name: str, value: Any) -> None:
    _check_text(name, value, "a URL or an absolute path")
    if value is not None and (value != value.strip() or _UNREPLACED.search(value)):
        raise invalid(name, value, "a URL or an absolute path without placeholders, and without blanks around it")
    if value is not None and not value.startswith("/") and "://" not in value:
        raise invalid(name, value, "a URL such as s3://bucket/path or file:///path, or /path")


def _check_domain(name: str, value: Any) -> None:
    from airflow_provider_analytics.api.domains import check_domain

    _check_text(name, value)
    if value is not None:
        check_domain(value)


def _check_choice(name: str, value: Any) -> None:
    if value is not None or name not in _OPTIONAL_CHOICES:
        one_of(name, value, CHOICES[name])


def _check_compression(name: str, value: Any) -> None:
    if value not in (None, "", *COMPRESSIONS):
        raise invalid(name, value, "gzip, or None for no compression")


def _check_guards(name: str, value: Any) -> None:  # noqa: ARG001 - all checks have the same signature
    parse_guards(value)


def _check_day(name: str, value: Any) -> None:
    """Check a day. An empty template, which renders to "" or "None", means the default."""
    if value is None or (isinstance(value, str) and value.strip() in ("", "None")):
        return
    from airflow_provider_analytics.snapshots.run_day import parse_day

    try:
        parse_day(str(value))
    except ValueError:
        raise invalid(name, value, _DAY) from None


def _check_moment(name: str, value: Any) -> None:
    if value is not None and not isinstance(value, (str, date)):
        raise invalid(name, value, f"{_DAY}, or a date with a time")


def _check_names_of_fields(name: str, value: Any) -> None:
    from airflow_provider_analytics.api.fields import RECORD_FIELDS

    for field in names(name, value):
        one_of(name, field, RECORD_FIELDS)


def _check_password_from(name: str, value: Any) -> None:  # noqa: ARG001 - all checks have the same signature
    from airflow_provider_analytics.api.fields import check_password_from

    if value is not None:
        check_password_from(value)


def _check_field(name: str, value: Any) -> None:
    """Check the setting of a website; lists and other arguments are checked where they are read."""
    from airflow_provider_analytics.api.fields import FIELDS, Field, Lines

    for field in FIELDS.values():
        if value is None or name != ARGUMENTS.get(field.name, field.name) or isinstance(field, Lines):
            continue
        if type(field) is Field:
            _check_text(name, value)
        replace(field, name=name).from_user(value)


def _check_selectors(name: str, value: Any) -> None:
    from airflow_provider_analytics.reconcile.desired.exclusion_list import is_record, parse_selectors

    is_filters = isinstance(value, Mapping) and not is_record(value)
    is_all_or_filters = name == "websites" and (value is None or is_filters)
    if not is_all_or_filters:
        parse_selectors(name, value)


def _check_digest(name: str, value: Any) -> None:  # noqa: ARG001 - all checks have the same signature
    """Check a digest that is given as text. A missing approval is the error of the run that needs it."""
    from airflow_provider_analytics.reconcile.plan.plan_guards import parse_digest

    if isinstance(value, str) and value.strip() not in ("", "None"):
        parse_digest(value)


def _check_website_id(name: str, value: Any) -> None:  # noqa: ARG001 - all checks have the same signature
    from airflow_provider_analytics.api.fields import check_website_id

    if value is not None:
        check_website_id(value)


_CHECKS: Mapping[str, Callable[[str, Any], object]] = {
    **dict.fromkeys(_TEXTS, _check_text),
    **dict.fromkeys(CHOICES, _check_choice),
    **dict.fromkeys(_FLAGS, flag),
    "approved_digest": _check_digest,
    "compression": _check_compression,
    "current": _check_day,
    "domain": _check_domain,
    "except_websites": _check_selectors,
    "ignore_fields": _check_names_of_fields,
    "keep_days": partial(whole_number, at_least=0),
    "keep_months": partial(whole_number, at_least=0),
    "keep_weeks": partial(whole_number, at_least=0),
    "max_loss_fraction": fraction,
    "max_records": partial(whole_number, at_least=1),
    "override_guards": _check_guards,
    "partition_date": _check_moment,
    "password_from": _check_password_from,
    "previous": _check_day,
    "snapshot_date": _check_day,
    "unmanage_websites": _check_selectors,
    "website_id": _check_website_id,
    "websites": _check_selectors,
}


#: Errors of other packages that a retry cannot fix, and what to do first. Errors of this package have
#: :attr:`AnalyticsError.permanent`.
PERMANENT_ERRORS: Mapping[type[Exception], str] = {
    AirflowNotFoundException: "create the connection first",
    ValueError: "correct the input first",
}
#: Arguments for which None means more: all websites, the website of the domain, or no record of the own entries. A task
#: that was marked as success by hand returns None.
_WIDENED_BY_NONE = ("state_path", "website_id", "websites")
#: Arguments that are not templates, because they are needed when the DAG is parsed.
NOT_TEMPLATED = {"asset"}

log = logging.getLogger(__name__)


def arguments_of(constructor: Callable[..., None]) -> tuple[str, ...]:
    """Return the attributes in which a constructor stores its keyword arguments, for ``template_fields``."""
    stored = []
    for name, parameter in inspect.signature(constructor).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY and name not in NOT_TEMPLATED:
            stored.append(STORED_AS.get(name, name))
    return tuple(stored)


class ProviderBaseOperator(BaseOperator):
    """Base class of all operators; keeps the reason of an error on the first screen of the task log."""

    #: Arguments that a template or another task determines.
    determined_later: frozenset[str] = frozenset()

    def check_arguments(self) -> None:
        """Check the values that are known when the DAG is parsed. Each ``__init__`` ends with a call of this method.

        A class extends it for arguments that are checked together.

        :raises ValueError: if a value is not allowed; Airflow displays it as an import error of the DAG file.
        """
        # A subclass can have further template fields, which its constructor sets later.
        known = [name for name in self.template_fields if hasattr(self, name)]
        self.determined_later = frozenset(
            name for name in known if not is_literal(getattr(self, name), self.starts_of_templates)
        )
        for name in known:
            if name.endswith("_path"):
                setattr(self, name, path_text(getattr(self, name)))
            if self.are_literal(name):
                try:
                    check_value(name, getattr(self, name))
                except ValueError as error:
                    raise ValueError(f"{error}{self._default_args_hint(name)}") from None

    def _default_args_hint(self, name: str) -> str:
        """Return the end of a message about an argument that comes from ``default_args``; otherwise empty."""
        argument = _ARGUMENT_OF.get(name, name)
        for defaults_of in (getattr(self, "task_group", None), self.get_dag()):
            default_args = getattr(defaults_of, "default_args", None) or {}
            if argument in default_args and default_args[argument] == getattr(self, name):
                return (
                    f". The value comes from default_args. If {argument} means something else there, pass {argument} "
                    "to this task, too"
                )
        return ""

    @property
    def starts_of_templates(self) -> Sequence[str]:
        """The texts with which a template starts, with the ones that the DAG sets as ``jinja_environment_kwargs``."""
        options = getattr(self.get_dag(), "jinja_environment_kwargs", None) or {}
        own = [options[option] for option in _START_OPTIONS if options.get(option)]
        return (*_STARTS_OF_TEMPLATES, *own)

    @property
    def is_mapped(self) -> bool:
        """Whether this is a row of a mapped task. Airflow creates it in the run, and retries errors of ``__init__``."""
        return bool(getattr(self, "_BaseOperator__from_mapped", False))

    def are_literal(self, *names: str) -> bool:
        """Return whether the values of all these arguments are known when the DAG is parsed."""
        if self.is_mapped:
            return False
        return all(is_literal(getattr(self, name), self.starts_of_templates) for name in names)

    def render_template(self, content: Any, *args: Any, **kwargs: Any) -> Any:
        """Render a template; an error, such as a missing Variable, is logged with few frames."""
        try:
            return super().render_template(content, *args, **kwargs)
        except Exception as error:
            raise without_frames(error) from None


class AnalyticsBaseOperator(ProviderBaseOperator):
    """Base class of the operators that call the service.

    :param analytics_conn_id: id of a connection of type ``analytics``. (templated)
    """

    #: The hook of the running try, and whether the try was killed before it had one.
    _connected: HookSession | None = None
    _is_killed = False

    def __init__(
        self,
        *,
        analytics_conn_id: str = "analytics_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.analytics_conn_id = analytics_conn_id

    def connected(self, context: Context) -> HookSession:
        """Return a context manager that provides a hook and fails the task without a retry on a permanent error.

        :param context: context of the task, for the error of a guard, which says how to override the guard in this
            DAG.
        """
        with FailWithoutRetry(self):
            check_rendered_arguments(self)
        self._connected = HookSession(self, context)
        if self._is_killed:
            self._is_killed = False
            self._connected.stop()
        return self._connected

    def on_kill(self) -> None:
        """Send no further requests, and stop waiting. The changes so far are recorded, and the task fails.

        Airflow calls this method when the task is killed: it is marked as failed or success, it is cleared, or its
        worker shuts down. Airflow 3 kills the process some seconds later, so the task must end on its own.
        """
        # Runs in a signal handler: no locks, no log.
        if self._connected is None:
            self._is_killed = True
        else:
            self._connected.stop()


class FailWithoutRetry:
    """Context manager that turns an error that a retry cannot fix into ``AirflowFailException``.

    Other errors of this package lose their inner frames. The task log opens at its end, where the reason is.

    This is a class, not a generator, so that the traceback has no frames of ``contextlib``.

    :param operator: operator of the task; an error about an argument names its domain, if it has one.
    """

    def __init__(self, operator: BaseOperator | None = None) -> None:
        self._operator = operator

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Raise ``AirflowFailException`` for a permanent error; its message contains the cause, without frames."""
        first = ""
        for permanent_kind, before_retry in PERMANENT_ERRORS.items():
            if isinstance(error, permanent_kind):
                first = before_retry
        if isinstance(error, AnalyticsError) and error.permanent:
            first = error.before_retry
        if first:
            message = readable(str(error), MAX_MESSAGE, breaks="keep")
            domain = getattr(self._operator, "domain", None)
            if isinstance(error, ValueError) and domain and str(domain) not in message:
                message = f"{readable(str(domain))}: {message}"
            if isinstance(error, AirflowNotFoundException):  # its message does not name the argument
                message = f"analytics_conn_id: {message}"
            raise permanent_failure(message, first) from None
        if isinstance(error, AnalyticsError):
            raise without_frames(error) from None


class HookSession(FailWithoutRetry):
    """Context manager that provides a hook and closes it. After a stop, it always raises an error.

    :param operator: operator of the task.
    :param context: context of the task.
    """

    def __init__(self, operator: AnalyticsBaseOperator, context: Context) -> None:
        super().__init__(operator)
        # Imported here: DAG files are parsed often, and importing requests is slow.
        from airflow_provider_analytics.hooks.analytics import AnalyticsHook

        self._hook = AnalyticsHook(operator.analytics_conn_id)
        self._context = context
        self._override_guards = getattr(operator, "override_guards", ())
        self._is_stopped = False

    def __enter__(self) -> AnalyticsHook:  # type: ignore[override]
        """Return the hook."""
        return self._hook

    def stop(self) -> None:
        """Stop the hook; it sends no further requests."""
        self._is_stopped = True
        self._hook.stop()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the hook; raise ``AirflowFailException`` for a permanent error.

        Secrets are removed from the failures, because a service can return a secret in a domain or an entry.
        """
        self._hook.close()
        if self._is_stopped and error is None:
            raise StoppedError("The task was killed. A retry completes the work.")
        if isinstance(error, BulkError):
            error.failures = {readable(name): readable(why, MAX_MESSAGE) for name, why in error.failures.items()}
        if isinstance(error, GuardError) and error.guard:
            guards = dict.fromkeys((*names("override_guards", self._override_guards), *error.guard.split(", ")))
            error.remedy = f"{error.remedy}\n{how_to_override(list(guards), self._context)}"
        if isinstance(error, AnalyticsError) and not error.where and not isinstance(error, AnalyticsConfigError):
            error.where = self._hook.where
        super().__exit__(kind, error, traceback)


def skipped(reason: str) -> AirflowSkipException:
    """Log why a task is skipped, and return the exception: Airflow hides its message in a folded part of the log."""
    log.info("Skipped: %s", reason)
    return AirflowSkipException(reason)


def without_frames(error: Exception) -> Exception:
    """Return an error without its frames; they are logged at level DEBUG."""
    log.debug("Traceback of the failed call", exc_info=error)
    return error.with_traceback(None)


def how_to_override(guards: Sequence[str], context: Context) -> str:
    """Return how to override guards in the DAG of a task."""
    if "override_guards" not in context.get("params", ()):
        ti = context.get("ti")
        call = getattr(getattr(context.get("task"), "task_group", None), "override_at", "")
        where = "on the task"
        if call:
            where = f"in {call}"
        elif ti:
            where = f"on task {ti.task_id}"
        return (
            f"If this is intended, set override_guards={list(guards)!r} {where} for one run.\n"
            f"See {SITE}guards/#override-a-guard"
        )
    # With the other values of this run, because they can select the websites that it changes.
    conf = {**(getattr(context.get("dag_run"), "conf", None) or {}), "override_guards": list(guards)}
    return (
        f"If this is intended, select {', '.join(guards)} under Override guards in the trigger form, or run:\n"
        f"airflow dags trigger {context['dag'].dag_id} --conf {shlex.quote(json.dumps(conf, default=str))}"
    )


def check_rendered_arguments(operator: ProviderBaseOperator) -> None:
    """Check every argument of an operator after its templates were rendered.

    A lazy collection becomes a tuple, because an iterator is exhausted after one read.

    :raises ValueError: if an argument is of a type that is not allowed, or a text is blank, as that of a template whose
        Variable is empty. It is not "not given".
    """
    for name in operator.template_fields:
        value = once(getattr(operator, name))
        if value is None and name in operator.determined_later and name in _WIDENED_BY_NONE:
            raise ValueError(
                f"{name} is None, because its template or the task that it comes from returned nothing. A task that "
                "was skipped or marked as success by hand returns nothing"
            )
        if name.endswith("_path"):
            value = path_text(value)
        if name == "website_id":
            value = id_of(value)
        check_value(name, value)
        setattr(operator, name, value)


def require_run(context: Context, keys: Iterable[str], what: str) -> None:
    """Raise :class:`ValueError` if keys are missing in the context that Airflow passes to each task of a run.

    :param keys: the required keys.
    :param what: the feature that needs them, for the message.
    """
    missing = [key for key in keys if key not in context]
    if missing:
        raise ValueError(
            f"{what} works only in a DAG run. Missing in the context: {', '.join(missing)}. Use dag.test() instead of "
            f"execute(). See {SITE}operators/#run-an-operator-without-a-dag"
        )


def permanent_failure(message: str, first: str) -> AirflowFailException:
    """Return the exception that fails a task without a retry.

    :param message: the problem and the remedy.
    :param first: the action before a retry, as an imperative or a clause.
    """
    if not message.endswith((".", "!", "?", "\n", "'")):  # a command ends with a quote
        message = f"{message}."
    return AirflowFailException(f"{message}\nNot retried: {first}.")
