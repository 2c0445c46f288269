# SPDX-License-Identifier: Apache-2.0
"""Base class and error handling of the operators."""

from __future__ import annotations

import inspect
import json
import logging
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import (
    AirflowFailException,
    AirflowNotFoundException,
    AirflowSkipException,
    BaseOperator,
)

from airflow_provider_analytics import SITE
from airflow_provider_analytics.api.checks import names, once
from airflow_provider_analytics.exceptions import (
    MAX_MESSAGE,
    AnalyticsConfigError,
    AnalyticsError,
    BulkError,
    GuardError,
    StoppedError,
)
from airflow_provider_analytics.operators.values import check_value, is_literal
from airflow_provider_analytics.readable import readable

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_analytics.hooks.analytics import AnalyticsHook

#: Errors of other packages that a retry cannot fix, and what to do first. Errors of this package have
#: :attr:`AnalyticsError.permanent`.
PERMANENT_ERRORS: Mapping[type[Exception], str] = {
    AirflowNotFoundException: "create the connection first",
    ValueError: "correct the input first",
}
#: Arguments that are not templates, because they are needed when the DAG is parsed.
NOT_TEMPLATED = {"asset"}
#: Argument to the attribute that stores it, if it is another one: ``dry_run`` is a method of every operator.
STORED_AS = {"dry_run": "is_dry_run"}

log = logging.getLogger(__name__)


def arguments_of(constructor: Callable[..., None]) -> tuple[str, ...]:
    """Return the attributes in which a constructor stores its keyword arguments, for ``template_fields``."""
    stored = []
    for name, parameter in inspect.signature(constructor).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY and name not in NOT_TEMPLATED:
            stored.append(STORED_AS.get(name, name))
    return tuple(stored)


class ShortErrorsOperator(BaseOperator):
    """Base class of all operators; keeps the reason of an error on the first screen of the task log."""

    def check_arguments(self) -> None:
        """Check the values that are known when the DAG is parsed. Each ``__init__`` ends with a call of this method.

        A class extends it for arguments that are checked together.

        :raises ValueError: if a value is not allowed; Airflow displays it as an import error of the DAG file.
        """
        for name in self.template_fields:
            if self.are_literal(name):
                check_value(name, getattr(self, name))

    @property
    def is_mapped(self) -> bool:
        """Whether this is a row of a mapped task. Airflow creates it in the run, and retries errors of ``__init__``."""
        return bool(getattr(self, "_BaseOperator__from_mapped", False))

    def are_literal(self, *names: str) -> bool:
        """Return whether the values of all these arguments are known when the DAG is parsed."""
        if self.is_mapped:
            return False
        return all(is_literal(getattr(self, name)) for name in names)

    def render_template(self, content: Any, *args: Any, **kwargs: Any) -> Any:
        """Render a template; an error, such as a missing Variable, is logged with few frames."""
        try:
            return super().render_template(content, *args, **kwargs)
        except Exception as error:
            raise without_frames(error) from None


class AnalyticsBaseOperator(ShortErrorsOperator):
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
            raise StoppedError("Stopped: the task was killed. A retry completes the work.")
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
            "This DAG has no Param override_guards."
        )
    # With the other values of this run, because they can select the websites that it changes.
    conf = {**(getattr(context.get("dag_run"), "conf", None) or {}), "override_guards": list(guards)}
    return (
        f"If this is intended, select {', '.join(guards)} under Override guards in the trigger form, or run:\n"
        f"airflow dags trigger {context['dag'].dag_id} --conf {shlex.quote(json.dumps(conf, default=str))}"
    )


def check_rendered_arguments(operator: BaseOperator) -> None:
    """Check every argument of an operator after its templates were rendered.

    A lazy collection becomes a tuple, because an iterator is exhausted after one read.

    :raises ValueError: if an argument is of a type that is not allowed, or a text is blank, as that of a template whose
        Variable is empty. It is not "not given".
    """
    for name in operator.template_fields:
        value = once(getattr(operator, name))
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
            f"execute(). See {SITE}operators/#run-one-by-itself"
        )


def permanent_failure(message: str, first: str) -> AirflowFailException:
    """Return the exception that fails a task without a retry.

    :param message: the problem and the remedy.
    :param first: the action before a retry, as an imperative or a clause.
    """
    if not message.endswith((".", "!", "?", "\n", "'")):  # a command ends with a quote
        message = f"{message}."
    return AirflowFailException(f"{message}\nNot retried: {first}.")
