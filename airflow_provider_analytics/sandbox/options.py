"""Options for undocumented behavior and for common errors of servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from airflow_provider_analytics.sandbox.fields import DEFAULTS

Write = Literal["create", "update", "delete"]


class Options(BaseModel):
    """Undocumented behavior and common errors of the server.

    The defaults describe a server without errors.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    # Lists

    #: Query parameter that selects a page.
    page_parameter: str = Field(default="page", min_length=1)
    #: Number of the first page.
    first_page: int = Field(default=1, ge=0, le=1)
    #: How pages are selected: by number, by the cursor in the previous page, or by the number of websites to skip, with
    #: the parameter ``offset``. A cursor list has no total and no page numbers.
    paging: Literal["number", "cursor", "offset"] = "number"
    #: Key of the websites in a list response; None: the list is a bare JSON array. A dot separates nested keys. With
    #: ``data.data``, the metadata are in the same object as the inner list.
    list_key: str | None = "data"
    #: Key of another list of objects next to the websites; None: no other list.
    lists_beside: str | None = None
    #: Actual sort key of the list if ``id`` is requested: the id or the domain.
    order: Literal["id", "domain"] = "id"
    #: Place of the page metadata: under ``meta`` with ``links`` next to it, at the top level with the websites, or
    #: nowhere. A bare array has no metadata.
    metadata: Literal["meta", "flat", "none"] = "meta"
    #: List parameters that are validated but have no effect. ``sort`` includes ``sort_by``. If ``per_page`` is ignored,
    #: a page contains the whole list.
    ignored: frozenset[Literal["page", "per_page", "sort", "search", "favorite"]] = frozenset()
    #: How ``favorite`` of a list is parsed: as a boolean, as the truth value of text (only empty text and "0" are
    #: false), or as 1 or 0 only.
    favorite_filter: Literal["boolean", "truth of text", "1/0"] = "boolean"
    #: Which domains ``search`` finds. ``part``: those that contain the text. ``case``: the same, but case-sensitive.
    #: ``start``: those that begin with it. ``label``: those with it as a label. ``exact``: those equal to it. ``late``:
    #: those that contained it at the previous search, as with a delayed index. ``nothing``: none.
    search_matches: Literal["part", "case", "start", "label", "exact", "late", "nothing"] = "part"
    #: Fields that are missing in the records of a list, but not in the response to show.
    list_hides: frozenset[str] = frozenset()
    #: Maximum number of websites per page, whatever ``per_page`` requests.
    page_size_limit: int | None = Field(default=None, ge=1)
    #: Added to the requested page number: -1 repeats the previous page, 1 skips one.
    page_offset: int = 0
    #: The total in the metadata: of the list (``given``), of the websites on the page after ``row_cap`` (``page``), or
    #: none (``absent``). Without a total, the last page is missing too.
    total: Literal["given", "page", "absent"] = "given"
    #: Added to the true total, to model a wrong count.
    total_offset: int = 0
    #: Maximum of the total, as in some search engines. It also limits the last page. Later pages are still returned.
    total_cap: int | None = Field(default=None, ge=1)
    #: Number of websites of a list that pages can return, as with a search window. ``total_cap`` limits the numbers.
    row_cap: int | None = Field(default=None, ge=1)
    #: Response for a page after the last one: an empty page, status 404, or the last page again.
    behind_last: Literal["empty", "not found", "last"] = "empty"
    #: Page number in the metadata. ``served`` and ``asked`` differ only if the page parameter is ignored or offset.
    current_page: Literal["served", "asked", "wrong", "absent"] = "served"
    #: Place of the links to other pages: by name, as a list in the metadata, in the header ``Link``, or nowhere.
    links: Literal["given", "list", "header", "absent"] = "given"

    # Records

    #: Key of the record in responses to show, create, update and account; None: the record is bare. A dot separates
    #: nested keys. With ``data:attributes``, ``data`` contains the id, and ``attributes`` with the other fields.
    record_key: str | None = "data"
    #: Render the integers of records and metadata as text.
    numbers_as_text: bool = False
    #: Render ``favorite`` as true/false, as 1/0, or as "true"/"false". ``null`` renders false as null.
    favorite_as: Literal["boolean", "integer", "text", "null"] = "boolean"
    #: Render ``email`` and ``exclude_bots`` as 0/1 or as false/true.
    flags_as: Literal["integer", "boolean"] = "integer"
    #: How exclusion lists are rendered: one entry per line (LF or CR LF), separated by commas, blanks or ``<br>``, as
    #: JSON text, as an array, or truncated to 20 characters with or without "...". ``null`` hides the entries.
    lists_as: Literal["lines", "CR LF", "commas", "blanks", "br", "json", "array", "cut", "cut with dots", "null"] = (
        "lines"
    )
    #: Status of the response for a website that does not exist; 200 has a message instead of the record.
    missing: Literal["404", "410", "403", "200"] = "404"
    #: Response to a wrong key: a status, a redirect to a login page, or 200 with the login page.
    wrong_key: Literal["401", "403", "redirect", "page"] = "401"
    #: Body of an error: JSON with a message, problem details (RFC 9457), an HTML page, or plain text.
    errors_as: Literal["message", "problem", "page", "text"] = "message"
    #: First field that identifies the account. ``nothing``: the account contains only a plan.
    account_shows: Literal["id", "uuid", "email", "name", "nothing"] = "id"
    #: Whether headers report a rate limit, although the sandbox has none.
    limit_headers: Literal["absent", "given"] = "absent"
    #: Whether headers report that reads come from a cache, although the sandbox has none.
    cache_headers: Literal["absent", "given"] = "absent"
    #: Additional fields of records, as templates with ``{password}``, ``{api_key}`` and ``{domain}``.
    extra_fields: Mapping[str, str] = {}

    # Writes

    create_status: int = Field(default=201, ge=200, le=299)
    update_status: int = Field(default=200, ge=200, le=299)
    delete_status: int = Field(default=200, ge=200, le=299)
    #: Operations whose response has no body. A response with status 204 never has a body.
    empty_answers: frozenset[Write] = frozenset()
    #: Operations whose response contains a message instead of the record.
    message_answers: frozenset[Write] = frozenset()
    #: Operations whose response contains the values that were sent, regardless of the stored values.
    echoes: frozenset[Literal["create", "update"]] = frozenset()
    #: Operations whose response contains only the id and the domain.
    short_answers: frozenset[Literal["create", "update"]] = frozenset()
    #: Effect of a delete: remove the website, mark it with ``deleted_at`` and still return it, or keep it unchanged.
    deletes: Literal["remove", "mark", "keep"] = "remove"
    #: Effect of an update on fields that were not sent.
    updates: Literal["keep others", "reset others"] = "keep others"
    #: Stored part of an exclusion list: all lines, only new lines (all if none is new), only the last line, lines
    #: without comments, lines without networks, or the first 40 characters. ``normalized`` sorts the lines, converts
    #: them to upper case and removes duplicates.
    lists_stored: Literal[
        "all", "new lines", "last line", "no comments", "no networks", "40 characters", "normalized"
    ] = "all"
    #: Number of reads after each write that return the websites as they were before the write.
    reads_behind: int = Field(default=0, ge=0)
    #: How a domain is stored: as sent, as A-labels (punycode), as U-labels, in lower case, without or with a leading
    #: ``www.``, or with scheme, port or slash. ``IDNA 2003`` stores A-labels of the older standard, which converts
    #: ``straße`` to ``strasse``.
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
    #: Fields that are validated but never stored.
    ignored_fields: frozenset[str] = frozenset()
    #: Create a second website of the same domain instead of rejecting it.
    allow_duplicates: bool = False
    #: Reject unknown query parameters and form fields instead of ignoring them.
    strict_parameters: bool = True

    # Access

    #: Required headers. Without them, a proxy in front of the service returns status 403 and an HTML page.
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
