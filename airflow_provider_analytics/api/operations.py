"""The six operations of the interface, one request each (docs/interface.md, Operations)."""

from __future__ import annotations

from threading import Event
from urllib.parse import quote

from airflow_provider_analytics.api import dialect
from airflow_provider_analytics.api.dialect import Answer, Page, Record
from airflow_provider_analytics.api.transport import Texts, Transport
from airflow_provider_analytics.exceptions import NotFoundError

WEBSITES = "/websites"
ACCOUNT = "/account"


class Operations:
    """Sends the requests and reads the responses. A response does not prove what the service stored.

    Ids are path segments (:func:`fields.check_website_id`). Forms are built by :mod:`fields`. All methods raise the
    errors of :mod:`airflow_provider_analytics.exceptions`.

    :param transport: sends the requests.
    :param at_once: whether to send show and update without waits and retries, within :meth:`Transport.together`.
    """

    def __init__(self, transport: Transport, *, at_once: bool = False) -> None:
        self._transport = transport
        self._send = transport.once if at_once else transport.request
        self._settings = transport.settings

    def page(self, query: Texts, unwanted: Event | None = None) -> Page:
        """Return a page of the list; each of its rows has an id.

        :param unwanted: set when the response is no longer needed: the request is neither sent nor retried.
        """
        answer = self._transport.request("GET", WEBSITES, query=query, unwanted=unwanted)
        self._transport.stats.count("pages")
        page = dialect.page(answer, self._settings.list_key)
        for row in page.rows:
            if type(row.get("id")) is not int:  # as nearly always
                dialect.website_id(row, answer)
        return page

    def show(self, website_id: str) -> Record:
        """Return the record of a website.

        :raises NotFoundError: if it does not exist, or if its record is marked as deleted.
        """
        answer = self._send("GET", website_path(website_id))
        record = dialect.record(answer)
        _check_id(record, website_id, answer)
        if dialect.is_deleted(record):
            facts = ["the record says that the website is deleted"]
            raise NotFoundError(answer.status, answer.method, answer.path, "", facts=facts)
        return record

    def create(self, form: Texts) -> Record | None:
        """Create a website, and return the record of the response, or None if there is none."""
        return dialect.record_or_none(self._transport.request("POST", WEBSITES, form=form))

    def update(self, website_id: str, form: Texts) -> Record | None:
        """Update a website, and return the record of the response, or None if there is none."""
        answer = self._send(self._settings.update_method, website_path(website_id), form=form)
        record = dialect.record_or_none(answer)
        if record is not None:
            _check_id(record, website_id, answer)
        return record

    def delete(self, website_id: str) -> None:
        """Delete a website."""
        dialect.record_or_none(self._transport.request("DELETE", website_path(website_id)))

    def account(self) -> Record:
        """Return the record of the account that the API key belongs to."""
        return dialect.account(self._transport.request("GET", ACCOUNT))


def website_path(website_id: str) -> str:
    """Return the path of a website below ``/api/v1``."""
    return f"{WEBSITES}/{quote(website_id, safe='')}"


def _check_id(record: Record, requested: str, answer: Answer) -> None:
    if str(record["id"]) != requested:
        raise answer.unexpected(f"The response is about website {record['id']}, requested was website {requested}.")
