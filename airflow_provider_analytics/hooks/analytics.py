# SPDX-License-Identifier: Apache-2.0
"""Hook with the operations of the service."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from threading import Lock, Timer
from typing import Any, Self, Unpack

from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook, Stats, mask_secret

from airflow_provider_analytics.api import laravel
from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.fields import CreateSettings, ListFilters, UpdateSettings
from airflow_provider_analytics.api.laravel import Page, Record
from airflow_provider_analytics.api.listing import DEFAULT_QUERY, Listing
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.api.transport import Transport
from airflow_provider_analytics.api.waiting import METRICS_PREFIX, TIMERS
from airflow_provider_analytics.exceptions import AnalyticsConfigError, AnalyticsError, StoppedError
from airflow_provider_analytics.get_provider_info import CONNECTION_TYPE
from airflow_provider_analytics.hooks.connection import settings_from_connection, without_warnings_of_short_extras
from airflow_provider_analytics.readable import counted

#: Seconds that a test of the connection can take.
MAX_SECONDS_OF_A_TEST = 10.0


class AnalyticsHook(BaseHook):
    """Hook for a web-analytics service, with the base URL and the API key from an Airflow connection.

    Records are plain dicts as the service returns them. Their keys are not documented; only ``id`` is certain.

    Threads can share a hook. Close it, or use it in a ``with`` statement.

    All methods raise :class:`ValueError` for a bad argument, before they send a request. Errors of requests come from
    :mod:`airflow_provider_analytics.exceptions`.

    :param analytics_conn_id: id of a connection of type ``analytics``; it is read on first use.
    """

    conn_name_attr = "analytics_conn_id"
    default_conn_name = "analytics_default"
    conn_type = CONNECTION_TYPE["connection-type"]
    hook_name = CONNECTION_TYPE["hook-name"]

    def __init__(self, analytics_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.analytics_conn_id = analytics_conn_id
        self._client: AnalyticsClient | None = None
        self._is_stopped = False
        self._lock = Lock()

    def __enter__(self) -> Self:
        """Return the hook itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self.close()

    @property
    def client(self) -> AnalyticsClient:
        """Client for this connection. All threads share it, and therefore its limits.

        :raises AnalyticsConfigError: if the connection is invalid; lists all problems.
        """
        with self._lock:
            if self._client is None:
                connection = self._read_connection()
                settings = settings_from_connection(connection, self.analytics_conn_id)
                self._client = AnalyticsClient(settings, Transport(settings, listener=self._send_metric))
                # Airflow masks the password as it was saved, possibly with a line break at its end. It masks extras
                # by their names, which do not reveal all secrets.
                for secret in (connection.password, *self._client.redact.secrets):
                    mask_secret(secret)
            if self._is_stopped:
                self._client.stop()
            return self._client

    def _read_connection(self) -> Any:
        variable = f"AIRFLOW_CONN_{self.analytics_conn_id.upper()}"
        try:
            with without_warnings_of_short_extras():
                connection = self.get_connection(self.analytics_conn_id)
            is_readable = bool(connection.conn_type)  # a text without a scheme becomes a connection without a type
        except AirflowNotFoundException:
            # Airflow logs why it cannot read a variable, and continues as if it did not exist.
            if variable not in os.environ:
                raise
            is_readable = False
        if not is_readable and variable in os.environ:
            problem = f"{variable} is set, but it is neither JSON nor a URI. Write it as JSON, with double quotes"
            with suppress(ValueError):
                json.loads(os.environ[variable])
                problem = (
                    f"{variable} is JSON, but Airflow cannot read it as a connection. Write all values except port and "
                    "extra as text, in double quotes"
                )
            raise AnalyticsConfigError([problem], self.where) from None
        return connection

    def _send_metric(self, counted: str, number: float) -> None:
        """Send a count of the client to Airflow's metrics (docs/monitoring.md)."""
        name, tags = f"{METRICS_PREFIX}.{counted}", {"conn_id": self.analytics_conn_id}
        try:
            if counted in TIMERS:
                Stats.timing(name, timedelta(seconds=number), tags=tags)
            else:
                Stats.incr(name, int(number), tags=tags)
        except Exception as error:  # a metrics problem must not fail a change that was applied
            self.log.debug("Cannot send the metric %s: %s", name, error)

    @property
    def where(self) -> str:
        """Service and connection, as the last line of an error."""
        if self._client is None:
            return f"Connection: {self.analytics_conn_id}"
        return self._client.settings.where

    def get_conn(self) -> AnalyticsClient:
        """Return ``client``, under the name that Airflow uses."""
        return self.client

    def close(self) -> None:
        """Close the connections to the service."""
        if self._client is not None:
            self._client.close()

    def stop(self) -> None:
        """Send no further requests, and stop waiting; safe in a signal handler, such as ``on_kill``.

        A read under way raises :class:`StoppedError`. A write under way has two seconds to finish. After that, it
        raises an error, because the change might have been applied.
        """
        self._is_stopped = True
        if self._client is not None:
            self._client.stop()

    def list_websites(self, **filters: Unpack[ListFilters]) -> list[dict[str, Any]]:
        """Return the complete list of websites.

        A list that changes while it is read is read again, at most four times in total.

        :param search: search text; the service decides which websites match.
        :param search_by: field to search: ``domain``.
        :param favorite: True for favorites only, False for the others only.
        :param sort_by: ``id`` (date of creation, default) or ``domain``.
        :param sort: ``desc`` (default) or ``asc``. The default order needs the fewest requests.
        :param per_page: websites per request: 10, 25, 50, or 100 (default).
        :return: list of website records.
        :raises IncompleteListError: if the list cannot be proven complete.
        """
        return self.client.list_websites(**filters)

    def iter_websites(self, **filters: Unpack[ListFilters]) -> Listing:
        """Return the list of websites to iterate over; it is read page by page, and keeps only the ids in memory.

        Each iteration reads the list once. It raises :class:`IncompleteListError` as soon as the proof fails, possibly
        after the last record, so use the records only after it has ended. Then ``proof`` contains the reason why the
        list is complete.

        :param search: search text; the service decides which websites match.
        :param search_by: field to search: ``domain``.
        :param favorite: True for favorites only, False for the others only.
        :param sort_by: ``id`` (date of creation, default) or ``domain``.
        :param sort: ``desc`` (default) or ``asc``. The default order needs the fewest requests.
        :param per_page: websites per request: 10, 25, 50, or 100 (default).
        :return: iterable of website records.
        :raises IncompleteListError: while iterating, if the list cannot be proven complete.
        """
        return self.client.iter_websites(**filters)

    def get_website(self, website_id: int | str) -> dict[str, Any]:
        """Return a website.

        :param website_id: id of the website.
        :return: the website record.
        :raises NotFoundError: if no website has this id.
        """
        return self.client.get_website(website_id)

    def find_website(self, domain: str) -> dict[str, Any] | None:
        """Return the website of exactly this domain, or None. Case, a trailing dot, and punycode do not matter.

        :param domain: domain name, without scheme, port, or path.
        :return: the website record, or None.
        :raises DomainError: if the domain has several websites.
        """
        return self.client.find_website(domain)

    def create_website(self, domain: str, **settings: Unpack[CreateSettings]) -> dict[str, Any]:
        """Create a website, verify it, and return it.

        The request is never sent twice, and the domain is not looked up. In a task with retries, call
        :meth:`ensure_website`, because a retry of this method could create a second website.
        Omitted settings get the defaults of the service: privacy ``public``, no e-mail reports, bots excluded.

        :param domain: domain name, without scheme, port, or path.
        :param settings: fields that a create can send, such as ``privacy="private"``, see
            https://airflow-provider-analytics.github.io/airflow-provider-analytics/reference/interface/#fields.
            Privacy is a name, a number, or a :class:`Privacy`. A flag is a bool. An exclusion list is a list, or a text
            with one entry per line. A password is only allowed with privacy ``password``.
        :return: the website record.
        :raises AmbiguousWriteError: if it is unclear whether the website was created; then call :meth:`ensure_website`.
        :raises NotAppliedError: if the service does not return these settings and the defaults.
        """
        return self.client.create_website(domain, **settings).record

    def ensure_website(self, domain: str, **settings: Unpack[CreateSettings]) -> dict[str, Any]:
        """Return the website of a domain; create it with these settings if it does not exist.

        An existing website is returned unchanged, whatever its settings. If several tasks create the same domain at the
        same time, at most one succeeds.

        :param domain: domain name, without scheme, port, or path.
        :param settings: as for :meth:`create_website`.
        :return: the website record.
        :raises DomainError: if the domain has several websites.
        :raises DomainError: if the service seems to spell the domain differently, and a website with that spelling
            exists.
        :raises AmbiguousWriteError: if it is unclear whether the website was created; call this method again.
        :raises NotAppliedError: if the service does not return these settings for the new website.
        """
        return self.client.ensure_website(domain, **settings).record

    def update_website(self, website_id: int | str, **settings: Unpack[UpdateSettings]) -> dict[str, Any]:
        """Change settings of a website, verify it, and return it.

        The sent settings must have changed, and no others. None keeps a setting, and ``[]`` clears a list. If the
        website already has all settings, no update is sent.

        :param website_id: id of the website.
        :param settings: fields that an update can send, as for :meth:`create_website`.
        :return: the website record.
        :raises NotFoundError: if no website has this id.
        :raises NotAppliedError: if the service returns other values.
        """
        return self.client.update_website(website_id, **settings).record

    def delete_website(self, website_id: int | str) -> None:
        """Delete a website, and verify that it is gone.

        :param website_id: id of the website.
        :raises NotFoundError: if no website has this id, unless an earlier attempt of this call, whose response was
            lost, might have deleted it.
        :raises NotAppliedError: if the service still returns it.
        """
        self.client.delete_website(website_id)

    def get_account(self) -> dict[str, Any]:
        """Return the account of the API key. Its keys are not documented."""
        return self.client.get_account()

    def test_connection(self) -> tuple[bool, str]:
        """Fetch the account and the first page, without retries.

        :return: whether it succeeded, and a message for the form.
        """
        try:
            # Airflow tests a copy under a temporary id, which means nothing to the user.
            settings = replace(self.client.settings, source="this connection", max_retries=0)
            account, page = _first_page(settings)
        except AnalyticsConfigError as error:
            return False, str(AnalyticsConfigError(error.problems, "this connection"))
        except StoppedError:
            return False, f"The service did not respond within {MAX_SECONDS_OF_A_TEST:.0f} s: {settings.base_url}"
        except AnalyticsError as error:
            return False, str(error)
        websites = f"{counted(len(page.rows), 'website')} on the first page, and no total"
        if page.total is not None:
            websites = counted(page.total, "website")
        whose = ""
        if laravel.account_name(account):
            whose = f" as {self.client.redact(laravel.account_name(account))}"
        return True, f"Connected to {settings.base_url}{whose}. The account has {websites}."

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        """Return the behavior of the standard fields, for Airflow before 3.2; later versions read provider info."""
        behaviour = CONNECTION_TYPE["ui-field-behaviour"]
        return {
            "hidden_fields": behaviour["hidden-fields"],
            "relabeling": behaviour["relabeling"],
            "placeholders": behaviour["placeholders"],
        }

    @classmethod
    def get_connection_form_widgets(cls) -> dict[str, Any]:
        """Return the form fields of the extras, for Airflow before 3.2; later versions read provider info."""
        from flask_appbuilder.fieldwidgets import BS3TextFieldWidget
        from wtforms import StringField

        class TextWidget(BS3TextFieldWidget):  # type: ignore[misc]
            """Renders a mapping as JSON, which the field accepts, instead of its Python spelling."""

            def __call__(self, field: StringField, **attributes: Any) -> Any:
                if isinstance(field.data, dict):
                    attributes["value"] = json.dumps(field.data)
                return super().__call__(field, **attributes)

        # Text fields only: the hook parses numbers and flags from text, and an empty field means the default.
        widgets = {}
        for name, field in CONNECTION_TYPE["conn-fields"].items():
            widgets[name] = StringField(field["label"], description=field["description"], widget=TextWidget())
        return widgets


def _first_page(settings: Settings) -> tuple[Record, Page]:
    """Fetch and return the account and the first page of the list within :data:`MAX_SECONDS_OF_A_TEST`.

    :raises AnalyticsError: if the service rejects the key, or returns no account or no list.
    """
    with AnalyticsClient(settings) as client:
        timer = Timer(MAX_SECONDS_OF_A_TEST, client.stop)
        timer.daemon = True
        timer.start()
        try:
            return client.get_account(), client.page(DEFAULT_QUERY)
        finally:
            timer.cancel()
