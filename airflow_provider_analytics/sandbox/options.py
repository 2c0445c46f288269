"""Options: what the interface leaves undocumented, and what servers get wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from airflow_provider_analytics.sandbox.fields import DEFAULTS

Write = Literal["create", "update", "delete"]


class Options(BaseModel):
    """Behaviour of the server where the interface is not documented, or where servers may get it wrong.

    The defaults describe a well-behaved server.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    # Lists

    #: Query parameter that selects a page.
    page_parameter: str = Field(default="page", min_length=1)
    #: Number of the first page.
    first_page: int = Field(default=1, ge=0, le=1)
    #: Whether pages are selected by number, by the cursor that the page before names, or by the number of websites to
    #: skip, with the parameter ``offset``. A cursor list has no total and no page numbers.
    paging: Literal["number", "cursor", "offset"] = "number"
    #: Key that holds the websites of a list; None: the list is a bare JSON array. A dot leads into an object: with
    #: ``data.data`` the metadata stand beside the inner list.
    list_key: str | None = "data"
    #: Key of another list of objects that stands beside the websites; None: there is none.
    lists_beside: str | None = None
    #: What the list is sorted by if ``id`` is requested: the id, or the domain.
    order: Literal["id", "domain"] = "id"
    #: Where a list has its page metadata: under ``meta`` with ``links`` beside it, at top level beside the websites, or
    #: nowhere. A bare array has none.
    metadata: Literal["meta", "flat", "none"] = "meta"
    #: List parameters that are checked but have no effect. ``sort`` includes ``sort_by``; without ``per_page`` a page
    #: holds the whole list.
    ignored: frozenset[Literal["page", "per_page", "sort", "search", "favorite"]] = frozenset()
    #: How ``favorite`` of a list is read: as a boolean, or as some languages read text, where only empty text and "0"
    #: are false, or as 1 or 0 only.
    favorite_filter: Literal["boolean", "truth of text", "1/0"] = "boolean"
    #: What ``search`` finds: domains that contain the text (also where its case must be right), begin with it, have it
    #: as a label, are equal to it; what contained it some reads ago, as a search index shows it; or nothing at all.
    search_matches: Literal["part", "case", "start", "label", "exact", "late", "nothing"] = "part"
    #: Fields that the records of a list lack, although a show has them.
    list_hides: frozenset[str] = frozenset()
    #: Maximum number of websites per page, whatever ``per_page`` requests.
    page_size_limit: int | None = Field(default=None, ge=1)
    #: Added to the requested page number: -1 repeats the previous page, 1 skips one.
    page_offset: int = 0
    #: What the total of the metadata counts: the list, or the websites on the page (``row_cap`` included); without it
    #: there is no last page either.
    total: Literal["given", "page", "absent"] = "given"
    #: Added to the true total, to model a wrong count.
    total_offset: int = 0
    #: Total and last page stop at this number, as some search engines do. Later pages are served all the same.
    total_cap: int | None = Field(default=None, ge=1)
    #: Maximum number of websites of a list that any page shows, as of a search window; ``total_cap`` caps the numbers.
    row_cap: int | None = Field(default=None, ge=1)
    #: A page behind the last one is empty, refused with status 404, or the last one again.
    behind_last: Literal["empty", "not found", "last"] = "empty"
    #: Page number in the metadata. ``served`` and ``asked`` differ only if the page parameter is ignored or offset.
    current_page: Literal["served", "asked", "wrong", "absent"] = "served"
    #: Where other pages are linked: by name, as a list in the metadata, in the header ``Link``, or nowhere.
    links: Literal["given", "list", "header", "absent"] = "given"

    # Records

    #: Key that holds the record in responses to show, create, update and account; None: the record is bare. A dot leads
    #: into an object. With ``data:attributes`` the object under ``data`` has the id and ``attributes`` with the rest.
    record_key: str | None = "data"
    #: Render the integers of records and metadata as text.
    numbers_as_text: bool = False
    #: Render ``favorite`` as true/false, as 1/0, or as "true"/"false"; null: null instead of false.
    favorite_as: Literal["boolean", "integer", "text", "null"] = "boolean"
    #: Render ``email`` and ``exclude_bots`` as 0/1 or as false/true.
    flags_as: Literal["integer", "boolean"] = "integer"
    #: How exclusion lists are rendered: an entry per line (ended by LF, or by CR LF), separated by commas, blanks or
    #: ``<br>``, as JSON text, as an array, cut after 20 characters with or without "...", or null although there are
    #: entries.
    lists_as: Literal["lines", "CR LF", "commas", "blanks", "br", "json", "array", "cut", "cut with dots", "null"] = (
        "lines"
    )
    #: How a website that does not exist is answered: with a status, or with 200 and a message.
    missing: Literal["404", "410", "403", "200"] = "404"
    #: How a wrong key is answered: with a status, a redirect to a login page, or 200 and the login page.
    wrong_key: Literal["401", "403", "redirect", "page"] = "401"
    #: What the body of an error is: JSON with a message, problem details (RFC 9457), an HTML page, or plain text.
    errors_as: Literal["message", "problem", "page", "text"] = "message"
    #: What names the account, the best first; "nothing": it has a plan only.
    account_shows: Literal["id", "uuid", "email", "name", "nothing"] = "id"
    #: Whether headers announce a limit of requests, which there is not.
    limit_headers: Literal["absent", "given"] = "absent"
    #: Whether headers say that reads come from a cache, which they do not.
    cache_headers: Literal["absent", "given"] = "absent"
    #: Further fields of records, as text in which ``{password}``, ``{api_key}`` and ``{domain}`` are replaced.
    extra_fields: Mapping[str, str] = {}

    # Writes

    create_status: int = Field(default=201, ge=200, le=299)
    update_status: int = Field(default=200, ge=200, le=299)
    delete_status: int = Field(default=200, ge=200, le=299)
    #: Operations whose response has no body. With status 204 there is never one.
    empty_answers: frozenset[Write] = frozenset()
    #: Operations whose response holds a message in place of the record.
    message_answers: frozenset[Write] = frozenset()
    #: Operations whose response shows what was sent, whatever is stored.
    echoes: frozenset[Literal["create", "update"]] = frozenset()
    #: Operations whose response holds the id and the domain only.
    short_answers: frozenset[Literal["create", "update"]] = frozenset()
    #: What a delete does: removes the website, marks it with ``deleted_at`` and goes on showing it, or nothing.
    deletes: Literal["remove", "mark", "keep"] = "remove"
    #: What an update does to fields that were not sent.
    updates: Literal["keep others", "reset others"] = "keep others"
    #: What is stored of an exclusion list that is sent: all; only the lines that were not there before; only the last
    #: line; no comments; no networks; the first 40 characters; sorted, in upper case and without duplicates.
    lists_stored: Literal[
        "all", "new lines", "last line", "no comments", "no networks", "40 characters", "normalized"
    ] = "all"
    #: Number of reads after each write that show the websites as they were before it.
    reads_behind: int = Field(default=0, ge=0)
    #: How a domain is stored: as it was sent, as A-labels (punycode), as U-labels, in lower case, without or with a
    #: leading ``www.``, with scheme, port or slash, or as A-labels of the older IDNA 2003, by which ``straße`` is
    #: ``strasse``.
    domain_as: Literal[
        "sent",
        "ascii",
        "unicode",
        "lower",
        "without www",
        "with www",
        "with scheme",
        "with port",
        "with slash",
        "IDNA 2003",
    ] = "sent"
    #: Fields that are checked and never stored.
    ignored_fields: frozenset[str] = frozenset()
    #: Create a second website of the same domain instead of rejecting it.
    allow_duplicates: bool = False
    #: Reject unknown query parameters and form fields instead of ignoring them.
    strict_parameters: bool = True

    # Access

    #: Headers without which a proxy in front of the service answers with status 403 and an HTML page.
    required_headers: Mapping[str, str] = {}

    @model_validator(mode="after")
    def _consistent(self) -> Options:
        if self.page_parameter in _LIST_PARAMETERS:
            raise ValueError(f"page_parameter={self.page_parameter!r} is another parameter of the list")
        unknown = sorted(self.ignored_fields - set(DEFAULTS))
        if unknown:
            raise ValueError(f"ignored_fields: {unknown} are no fields; allowed: {', '.join(sorted(DEFAULTS))}")
        return self

    def changed(self, changes: Mapping[str, Any]) -> Options:
        """Return a copy with some options changed.

        :raises ValueError: for an unknown name or a bad value.
        """
        return Options.model_validate({**dict(self), **changes})


_LIST_PARAMETERS = frozenset({"search", "search_by", "favorite", "sort_by", "sort", "per_page"})
