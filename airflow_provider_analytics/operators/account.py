# SPDX-License-Identifier: Apache-2.0
"""Operator for the account."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_analytics.operators.base import AnalyticsBaseOperator, arguments_of
from airflow_provider_analytics.readable import readable

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context


class GetAccountOperator(AnalyticsBaseOperator):
    """Return the account of the connection's API key.

    .. code-block:: python

        GetAccountOperator(task_id="account")

    :param analytics_conn_id: id of a connection of type ``analytics``. (templated)
    :return: the account record as the service returns it, a dict without secrets; its keys are not documented.
    :raises AirflowFailException: without a retry, if the service rejects the key.
    :raises AnalyticsError: if the request fails or its response is unusable.
    """

    def __init__(
        self,
        *,
        analytics_conn_id: str = "analytics_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(analytics_conn_id=analytics_conn_id, **kwargs)
        self.check_arguments()

    template_fields = arguments_of(__init__)

    def execute(self, context: Context) -> dict[str, Any]:
        """Fetch the account."""
        from airflow_provider_analytics.api.laravel import account_name

        with self.connected(context) as hook:
            account = hook.client.for_output(hook.get_account())
            owner = account_name(account) or "the API key"
            self.log.info("Read the account of %s. Its fields: %s.", owner, readable(", ".join(account)) or "none")
            return account
