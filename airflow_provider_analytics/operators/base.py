"""What all operators share."""

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

#: What trying again cannot mend: the task fails at once, whatever its retries.
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
    """Base of the operators that talk to the service.

    :param analytics_conn_id: id of a connection of type ``analytics``. (templated)
    """

    template_fields: Sequence[str] = ("analytics_conn_id",)

    def __init__(self, *, analytics_conn_id: str = "analytics_default", **kwargs: Unpack[TaskArguments]) -> None:
        super().__init__(**kwargs)
        self.analytics_conn_id = analytics_conn_id

    @contextmanager
    def connected(self) -> Iterator[AnalyticsHook]:
        """Give a hook and close it afterwards; an error that trying again cannot mend fails the task at once."""
        # Imported here: DAG files are parsed every few seconds, and requests takes its time.
        from airflow_provider_analytics.hooks.analytics import AnalyticsHook

        with no_retry_where_useless(), AnalyticsHook(self.analytics_conn_id) as hook:
            yield hook


@contextmanager
def no_retry_where_useless() -> Iterator[None]:
    """Turn :data:`PERMANENT_ERRORS` into the exception on which Airflow does not try the task again."""
    try:
        yield
    except PERMANENT_ERRORS as error:
        raise AirflowFailException(f"{type(error).__name__}: {error}") from error


def for_xcom(record: Mapping[str, Any], hook: AnalyticsHook) -> dict[str, Any]:
    """Return a record for XCom, where all is stored and shown in clear: no password in it, and no API key.

    docs/interface.md shows neither what a website record holds nor what the account record does.
    """
    from airflow_provider_analytics.api.redaction import Redactor, without_secrets

    redact = Redactor()
    redact.add(hook.client.settings.api_key)
    cleaned: dict[str, Any] = without_secrets(record, redact)
    return cleaned
