"""Base class and error handling of the operators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Unpack

from airflow.providers.common.compat.sdk import AirflowFailException, BaseOperator

from airflow_provider_analytics.exceptions import (
    AnalyticsConfigError,
    AuthenticationError,
    DuplicateWebsiteError,
    PermissionDeniedError,
    UnsafePlanError,
    ValidationError,
)

if TYPE_CHECKING:
    from airflow_provider_analytics.hooks.analytics import AnalyticsHook
    from airflow_provider_analytics.operators.task_arguments import TaskArguments

#: Errors that a retry cannot fix: the task fails immediately, whatever its ``retries``.
PERMANENT_ERRORS = (
    AnalyticsConfigError,
    AuthenticationError,
    DuplicateWebsiteError,
    PermissionDeniedError,
    UnsafePlanError,
    ValidationError,
    ValueError,
)


class AnalyticsOperator(BaseOperator):
    """Base class of the operators that call the service.

    :param analytics_conn_id: id of a connection of type ``analytics``. (templated)
    """

    template_fields: Sequence[str] = ("analytics_conn_id",)

    def __init__(self, *, analytics_conn_id: str = "analytics_default", **kwargs: Unpack[TaskArguments]) -> None:
        super().__init__(**kwargs)
        self.analytics_conn_id = analytics_conn_id

    @contextmanager
    def connected(self) -> Iterator[AnalyticsHook]:
        """Yield a hook and close it afterwards; fail the task without a retry on :data:`PERMANENT_ERRORS`."""
        # Imported here: DAG files are parsed often, and importing requests is slow.
        from airflow_provider_analytics.hooks.analytics import AnalyticsHook

        with no_retry_where_useless(), AnalyticsHook(self.analytics_conn_id) as hook:
            yield hook


@contextmanager
def no_retry_where_useless() -> Iterator[None]:
    """Turn :data:`PERMANENT_ERRORS` into ``AirflowFailException``, which Airflow does not retry."""
    try:
        yield
    except PERMANENT_ERRORS as error:
        raise AirflowFailException(f"{type(error).__name__}: {error}") from error


def for_xcom(record: Mapping[str, Any], hook: AnalyticsHook) -> dict[str, Any]:
    """Return a record without passwords and API key: XCom values are stored and shown in plain text.

    Which fields records have is not documented (docs/interface.md, Not documented), so any of them may hold a secret.
    """
    from airflow_provider_analytics.api.redaction import Redactor, without_secrets

    redact = Redactor()
    redact.add(hook.client.settings.api_key)
    cleaned: dict[str, Any] = without_secrets(record, redact)
    return cleaned
