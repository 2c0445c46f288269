"""What all operators share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

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
    """Base of the operators of this provider.

    :param analytics_conn_id: id of a connection of type ``analytics``. (templated)
    """

    template_fields: Sequence[str] = ("analytics_conn_id",)

    def __init__(self, *, analytics_conn_id: str = "analytics_default", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.analytics_conn_id = analytics_conn_id

    @contextmanager
    def connected(self) -> Iterator[AnalyticsHook]:
        """Give a hook to work with and close it; an error that trying again cannot mend fails the task at once."""
        # Imported here: DAG files are parsed every few seconds, and requests takes its time.
        from airflow_provider_analytics.hooks.analytics import AnalyticsHook

        try:
            with AnalyticsHook(self.analytics_conn_id) as hook:
                yield hook
        except PERMANENT_ERRORS as error:
            raise AirflowFailException(f"{type(error).__name__}: {error}") from error


def without_secrets(record: Mapping[str, Any], hook: AnalyticsHook) -> dict[str, Any]:
    """Return a record for XCom, where all is stored and shown in clear: no password in it, and no API key.

    interface.md shows neither what a website record holds nor what the account record does.
    """
    from airflow_provider_analytics.api.redaction import Redactor

    redact = Redactor()
    redact.add(hook.client.settings.api_key)

    def clean(value: Any) -> Any:
        if isinstance(value, str):
            return redact(value)
        if isinstance(value, list):
            return [clean(entry) for entry in value]
        if isinstance(value, dict):
            return {name: clean(entry) for name, entry in value.items() if name != "password"}
        return value

    return {name: clean(value) for name, value in record.items() if name != "password"}
