"""Operator for the account."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_analytics.operators.base import AnalyticsOperator, without_secrets

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context


class GetAccountOperator(AnalyticsOperator):
    """Return the account that the API key of the connection belongs to (interface.md, part 4, "Show account").

    :return: the account record as the service sends it; its fields are not shown in the interface.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """Ask for the account."""
        with self.connected() as hook:
            return without_secrets(hook.get_account(), hook)
