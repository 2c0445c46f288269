"""The table of undocumented behavior (docs/interface.md, Not documented), one row per question.

``make generate`` derives tables of the documents from it. Tests compare it with the sandbox and the probe. They also
check that each row has a test of how a running task detects a server that differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

#: How the package copes with a value. ``assumed``: the package expects it. ``handled``: it also works without an extra.
#: ``extra``: it works with an extra. ``partly``: some functions fail with an error. ``refused``: lists or writes fail
#: with an error.
Effect = Literal["assumed", "handled", "extra", "partly", "refused"]


@dataclass(frozen=True)
class Value:
    """A behavior of servers.

    :param name: the value, as printed in the report.
    :param options: the sandbox options that simulate it.
    :param effect: how the package copes with it.
    :param meaning: consequence for the user; empty if everything works.
    """

    name: str
    options: Mapping[str, Any]
    effect: Effect = "handled"
    meaning: str = ""


@dataclass(frozen=True)
class Unknown:
    """An open question.

    :param name: short name, also the key of the result in the JSON report.
    :param question: the question.
    :param values: the known behaviors of servers.
    :param asked: the request of the probe; empty: reads cannot determine the value.
    :param noticed: how a running task detects that the server differs.
    :param noticed_by: the test of the detection, as path and function.
    :param extra: the extra that changes the assumption.
    :param promises: the promises of docs/guarantees.md that depend on the value.
    :param needs: the condition, as a sentence.
    """

    name: str
    question: str
    values: tuple[Value, ...]
    noticed: str
    noticed_by: str
    asked: str = ""
    extra: str = ""
    promises: tuple[str, ...] = ()
    needs: str = ""
    _by_name: Mapping[str, Value] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {value.name: value for value in self.values})

    @property
    def assumed(self) -> tuple[str, ...]:
        """Names of the values that the package expects."""
        return tuple(value.name for value in self.values if value.effect == "assumed")

    def value(self, name: str) -> Value:
        """Return one of the values."""
        return self._by_name[name]


#: Reported where reads cannot determine the value.
FIRST_WEBSITE = "The first website of a run shows it"

#: Promises of docs/guarantees.md that depend on the values.
PROMISES = (
    "A list is complete",
    "A snapshot is complete or does not exist",
    "A website is created once",
    "A success is verified",
    "Changes of others are kept",
    "An approved plan is checked whole",
    "Secrets are not disclosed",
)
LIST, SNAPSHOT, CREATE, SUCCESS, OTHERS, APPROVED, SECRETS = PROMISES

_API = "tests/integration/api"
_MISBEHAVING = "tests/integration/reconcile/test_misbehaving_services.py"
_NO_LIST = "Reading lists fails"
_ONE_PAGE = "Reading lists of more than one page fails"
_TWICE = "Each list is fetched twice, once in each direction"
_WHOLE = "Each lookup fetches the whole list"
_UNCHANGED = "Websites with such a list are not changed"
_SPELLING = "The create fails and reports the required spelling"
_FAILS = "The task fails"

UNKNOWNS = (
    Unknown(
        "rows",
        "Where are the rows of a list?",
        (
            Value("data", {}, "assumed"),
            Value("bare array", {"list_key": None}),
            Value("data.data", {"list_key": "data.data"}),
            Value("another key", {"list_key": "websites"}),
            Value(
                "one of several lists", {"list_key": "websites", "lists_beside": "groups"}, "extra", "Set `list_key`"
            ),
        ),
        asked="the first page",
        noticed="Reading the list fails. The error contains the extra `list_key`.",
        noticed_by=f"{_API}/test_paging.py::test_the_list_key_is_a_setting",
        extra="list_key",
        promises=(LIST,),
        needs="A response contains one list of objects, or the extra `list_key` selects it.",
    ),
    Unknown(
        "pages",
        "What selects a page?",
        (
            Value("page, from 1", {}, "assumed"),
            Value("page, from 0", {"first_page": 0}),
            Value("another parameter, linked by name", {"page_parameter": "p"}),
            Value(
                "another parameter, not linked by name",
                {"page_parameter": "p", "links": "absent"},
                "extra",
                "Set `page_parameter`",
            ),
            Value("cursor or offset, linked by name", {"paging": "cursor"}),
            Value(
                "cursor or offset, not linked by name",
                {"paging": "offset", "links": "absent"},
                "refused",
                _ONE_PAGE,
            ),
            Value("nothing", {"ignored": {"page"}}, "refused", _ONE_PAGE),
            Value("another page than requested", {"page_offset": 1}, "refused", _NO_LIST),
        ),
        asked="the second page of 10, as linked or as `page`",
        noticed="Reading the list fails. The error contains the extra `page_parameter`.",
        noticed_by="tests/contract/test_contract_not_shown.py::test_a_page_parameter_without_effect_is_noticed",
        extra="page_parameter",
        promises=(LIST,),
        needs="Pages are selected by number, or by links in the body.",
    ),
    Unknown(
        "links",
        "Where are other pages linked?",
        (
            Value("by name", {}, "assumed"),
            Value("as a list", {"links": "list"}),
            Value("in the header Link", {"links": "header"}),
            Value("nowhere", {"links": "absent"}),
        ),
        asked="the first page of 10",
        noticed="Pages are then requested by `page` or by the extra.",
        noticed_by=f"{_API}/test_paging.py::test_a_link_that_says_nothing_changes_nothing_and_is_never_followed",
        extra="page_parameter",
    ),
    Unknown(
        "page_number",
        "Which page number does a response contain?",
        (
            Value("its own", {}, "assumed"),
            Value("another one", {"current_page": "wrong"}, "refused", _NO_LIST),
            Value("none", {"current_page": "absent"}),
        ),
        asked="the first and the second page of 10",
        noticed="Reading the list fails if a page has another number than requested.",
        noticed_by=f"{_API}/test_paging.py::test_a_list_is_read_whole",
    ),
    Unknown(
        "page_size",
        "Does `per_page` set the page size?",
        (
            Value("as requested", {}, "assumed"),
            Value("capped", {"page_size_limit": 25}, "handled", "Lists require more requests"),
            Value("ignored", {"ignored": {"per_page"}}),
        ),
        asked="the first page, with 10 and 100 rows",
        noticed="The rows of the first page are counted.",
        noticed_by=f"{_API}/test_paging.py::test_a_list_is_read_whole",
    ),
    Unknown(
        "total",
        "What does the total count?",
        (
            Value("the list", {}, "assumed"),
            Value("the page", {"total": "page"}, "refused", _ONE_PAGE),
            Value("something else", {"total_cap": 100}, "refused", _NO_LIST),
            Value("no total", {"total": "absent"}, "handled", _TWICE),
        ),
        asked="the last page by the total, compared with the oldest website",
        noticed="The proof compares the total with the rows and the other end of the list.",
        noticed_by=f"{_API}/test_paging.py::test_a_total_that_is_capped_is_not_believed",
        promises=(LIST,),
        needs="The total counts the list, or there is none.",
    ),
    Unknown(
        "row_cap",
        "Are all rows returned?",
        (
            Value("all", {}, "assumed"),
            Value("up to a limit", {"row_cap": 100}, "refused", "Reading lists above the limit fails"),
        ),
        asked="the page that must contain the oldest website",
        noticed="Each proof requests the other end of the list.",
        noticed_by=f"{_API}/test_paging.py::test_rows_that_are_capped_at_any_number_are_noticed",
        promises=(LIST, SNAPSHOT),
        needs="Every row can be requested.",
    ),
    Unknown(
        "order",
        "Is the list sorted as requested?",
        (
            Value("by id, rising with creation", {}, "assumed"),
            Value("ignored", {"ignored": {"sort"}}, "refused", "Reading lists of more than one website fails"),
            Value("by something else", {"order": "domain"}, "handled", _TWICE),
        ),
        asked="the newest and the oldest 10",
        noticed="Ids must descend at the start of the list, and both directions must begin with different websites.",
        noticed_by=f"{_API}/test_paging.py::"
        "test_a_round_number_of_websites_in_an_order_that_is_ignored_may_be_the_newest_only",
        promises=(LIST, CREATE),
        needs="`sort` has an effect, and newer websites have higher ids.",
    ),
    Unknown(
        "behind_last",
        "What does a request for the page after the last one return?",
        (
            Value("empty", {}, "assumed"),
            Value("an error", {"behind_last": "not found"}),
            Value("the last page", {"behind_last": "last"}),
        ),
        asked="that page",
        noticed="A page without new rows ends the list, and so does an error.",
        noticed_by=f"{_API}/test_paging.py::test_a_page_behind_the_last_may_be_refused_or_the_last_one_again",
    ),
    Unknown(
        "search",
        "What does `search` find?",
        (
            Value("parts of a domain", {}, "assumed"),
            Value("parts, in the same case", {"search_matches": "case"}, "handled", _WHOLE),
            Value("the beginning", {"search_matches": "start"}),
            Value("whole labels", {"search_matches": "label"}),
            Value("the whole domain", {"search_matches": "exact"}),
            Value("nothing", {"search_matches": "nothing"}, "handled", _WHOLE),
            Value("everything", {"ignored": {"search"}}, "handled", _WHOLE),
        ),
        asked="one website by its domain in two cases and by parts of it",
        noticed="A search result counts only if it is exactly one website. Otherwise, the whole list is fetched.",
        noticed_by=f"{_API}/test_look_up.py::test_what_a_search_does_not_find_is_looked_for_in_the_whole_list",
    ),
    Unknown(
        "favorite_filter",
        "Does `favorite` filter the list?",
        (
            Value("true and false", {}, "assumed"),
            Value("any text is true", {"favorite_filter": "truth of text"}, "extra", "Set `boolean_format`"),
            Value("1 and 0 only", {"favorite_filter": "1/0"}, "extra", "Set `boolean_format`"),
            Value("no filter", {"ignored": {"favorite"}}, "handled", "Favorites are selected from the whole list"),
        ),
        asked="the list with true, with false, and with 1 or 0 if that fails",
        noticed="Rows are compared with the filter. The error contains the extra `boolean_format`.",
        noticed_by=f"{_API}/test_favorites.py::test_a_filter_that_nothing_confirms_is_an_error_that_names_the_extra",
        extra="boolean_format",
        promises=(LIST,),
        needs="For a list of favorites: rows have `favorite`, or the filter works.",
    ),
    Unknown(
        "row_fields",
        "Which fields do rows have?",
        (
            Value("those of a single website", {}, "assumed"),
            Value(
                "fewer", {"list_hides": {"exclude_ips", "exclude_params"}}, "handled", "Websites are fetched one by one"
            ),
        ),
        asked="a row, compared with the record of the same website",
        noticed="Websites with missing fields are fetched one by one, which is logged.",
        noticed_by="tests/integration/reconcile/test_websites_as_code.py::test_a_deletion_carries_what_is_deleted",
        promises=(SNAPSHOT,),
        needs="Rows have all fields; otherwise the columns are empty.",
    ),
    Unknown(
        "deleted_rows",
        "Are deleted websites returned?",
        (
            Value("no", {}, "assumed"),
            Value("marked", {"deletes": "mark"}),
        ),
        asked="the marks of the newest 100 rows",
        noticed="All operations ignore marked records.",
        noticed_by=f"{_API}/test_deleted_rows.py::test_a_list_of_several_pages_has_no_deleted_website",
        promises=(LIST,),
        needs="A deleted website is absent, or marked by one of the known keys.",
    ),
    Unknown(
        "record",
        "Where is the record of a website?",
        (
            Value("data", {}, "assumed"),
            Value("bare", {"record_key": None}),
            Value("another key", {"record_key": "website"}),
            Value("deeper", {"record_key": "data.website"}, "refused", "Websites cannot be read or changed"),
            Value("attributes", {"record_key": "data:attributes"}, "refused", "Fields are not read"),
        ),
        asked="one website",
        noticed="An error reports that the record has no usable id.",
        noticed_by="tests/contract/test_contract_not_shown.py::test_a_record_without_an_id_is_refused",
        promises=(SUCCESS,),
        needs="A record is bare, under `data`, or under the only key.",
    ),
    Unknown(
        "lists",
        "How is a list of entries written?",
        (
            Value("an entry per line", {}, "assumed"),
            Value("CR LF", {"lists_as": "CR LF"}),
            Value("an array", {"lists_as": "array"}),
            Value("commas", {"lists_as": "commas"}, "partly", _UNCHANGED),
            Value("blanks", {"lists_as": "blanks"}, "partly", _UNCHANGED),
            Value("<br>", {"lists_as": "br"}, "partly", _UNCHANGED),
            Value("JSON text", {"lists_as": "json"}, "partly", _UNCHANGED),
            Value("cut with dots", {"lists_as": "cut with dots"}, "partly", _UNCHANGED),
            Value("cut", {"lists_as": "cut"}, "partly", _UNCHANGED),
            Value("null", {"lists_as": "null"}, "partly", "Lists are not verified"),
        ),
        asked="the lists of the newest 100 rows, classified",
        noticed="An entry that cannot be parsed is an error before any change.",
        noticed_by="tests/unit/api/test_verification.py::test_a_list_in_a_form_that_is_not_understood_is_not_what_was_sent",
        promises=(SUCCESS, OTHERS),
        needs="A list has an entry per line, or is an array.",
    ),
    Unknown(
        "numbers",
        "How are numbers and flags written?",
        (
            Value("numbers", {}, "assumed"),
            Value("text", {"numbers_as_text": True}),
            Value("flags as booleans", {"flags_as": "boolean"}),
        ),
        asked="the newest 100 rows",
        noticed="All three forms are accepted.",
        noticed_by="tests/contract/test_contract_not_shown.py::test_every_plausible_shape_is_read",
    ),
    Unknown(
        "favorite",
        "How is `favorite` written?",
        (
            Value("boolean", {}, "assumed"),
            Value("number", {"favorite_as": "integer"}),
            Value("text", {"favorite_as": "text"}),
            Value("null for false", {"favorite_as": "null"}),
        ),
        asked="the newest 100 rows",
        noticed="All four forms are accepted.",
        noticed_by=f"{_API}/test_favorites.py::test_rows_that_show_the_flag_decide",
    ),
    Unknown(
        "domains",
        "How are domains stored?",
        (
            Value("as sent", {}, "assumed"),
            Value("as A-labels", {"domain_as": "ascii"}),
            Value("as U-labels", {"domain_as": "unicode"}),
            Value("in lower case", {"domain_as": "lower"}),
            Value("by IDNA 2003", {"domain_as": "IDNA 2003"}, "partly", _SPELLING),
            Value("without www", {"domain_as": "without www"}, "partly", _SPELLING),
            Value("with www", {"domain_as": "with www"}, "partly", _SPELLING),
            Value("with a scheme", {"domain_as": "with scheme"}),
            Value("with a port", {"domain_as": "with port"}),
            Value("with a slash", {"domain_as": "with slash"}),
        ),
        asked="the newest 100 rows; reads reveal only scheme, port and slash",
        noticed="If the service stores another domain, the create fails and reports it.",
        noticed_by=f"{_API}/test_look_up.py::test_a_create_that_becomes_another_domain_says_what_to_write",
        promises=(CREATE,),
        needs="Domains are stored as sent, except for case and IDNA form.",
    ),
    Unknown(
        "duplicates",
        "Can two websites have the same domain?",
        (
            Value("no", {}, "assumed"),
            Value("yes", {"allow_duplicates": True}, "partly", "Such websites can be changed only by id"),
        ),
        asked="the newest 100 rows, counted",
        noticed="A lookup that finds two websites is an error.",
        noticed_by=f"{_API}/test_sandbox_lists.py::test_two_websites_of_one_domain_are_an_error",
        promises=(CREATE,),
        needs="A second website of a domain is rejected, or returned in time.",
    ),
    Unknown(
        "account",
        "Which field identifies the account?",
        (
            Value("id", {}, "assumed"),
            Value("uuid", {"account_shows": "uuid"}),
            Value("email", {"account_shows": "email"}),
            Value("name", {"account_shows": "name"}),
            Value("nothing", {"account_shows": "nothing"}, "partly", "Plans are tied to the base URL only"),
        ),
        asked="the account, keys only",
        noticed="Without such a field, only the base URL is compared.",
        noticed_by="tests/contract/test_contract_not_shown.py::test_any_account_record_is_handed_on",
        promises=(APPROVED,),
        needs="The account has an id, uuid, e-mail address or name.",
    ),
    Unknown(
        "missing",
        "How is a missing website reported?",
        (
            Value("404", {}, "assumed"),
            Value("410", {"missing": "410"}),
            Value("403", {"missing": "403"}, "partly", "Deletes fail, unless the account can be read"),
            Value("200", {"missing": "200"}, "partly", "Deletes fail, unless the website is missing in the list"),
        ),
        asked="an id above the newest",
        noticed="Each delete is verified, regardless of its response.",
        noticed_by=f"{_MISBEHAVING}::test_a_delete_is_verified_whatever_the_service_says_of_what_is_gone",
        promises=(SUCCESS,),
        needs="A deleted website is reported as missing, or not in the list.",
    ),
    Unknown(
        "wrong_key",
        "How is a wrong key reported?",
        (
            Value("401", {}, "assumed"),
            Value("403", {"wrong_key": "403"}),
            Value("a redirect", {"wrong_key": "redirect"}),
            Value("a page", {"wrong_key": "page"}),
        ),
        asked="one request with a random key, only with `--wrong-key`",
        noticed="All of them are errors that are not retried.",
        noticed_by="tests/integration/hooks/test_hook_over_a_socket.py::test_a_wrong_key_is_told",
    ),
    Unknown(
        "errors",
        "What is the body of an error?",
        (
            Value("message", {}, "assumed"),
            Value("problem details", {"errors_as": "problem"}),
            Value("a page", {"errors_as": "page"}),
            Value("text", {"errors_as": "text"}),
        ),
        asked="the response for the missing website",
        noticed="The message is read from any of them.",
        noticed_by=f"{_API}/test_false_success.py::test_an_error_answer_of_any_shape_keeps_its_class",
    ),
    Unknown(
        "rate_limit",
        "Are limits announced?",
        (
            Value("no", {}, "assumed"),
            Value("in headers", {"limit_headers": "given"}),
        ),
        asked="the headers of all responses; the probe does not provoke a limit",
        noticed="The task waits after status 429, and when the headers report that the limit is used up.",
        noticed_by="tests/contract/test_contract_not_shown.py::test_a_rate_limit_is_waited_for",
        extra="requests_per_minute",
    ),
    Unknown(
        "freshness",
        "How fresh are reads?",
        (
            Value("at once", {}, "assumed"),
            Value("from a cache", {"cache_headers": "given"}, "partly", "Exclude the interface from the cache"),
            Value("late after a write", {"reads_behind": 2}, "handled", "Verification waits up to 7.5 s"),
            Value("late in a search", {"search_matches": "late"}, "handled", "Some lookups fetch the whole list"),
        ),
        asked="the headers Age and X-Cache; reads cannot reveal a delayed replica",
        noticed="If a read does not return a write yet, it is repeated up to four times.",
        noticed_by=f"{_MISBEHAVING}::test_a_service_that_shows_a_write_late_is_waited_for",
        promises=(LIST, CREATE, SUCCESS),
        needs="No response is older than an earlier one, and reads return a write within 7.5 s.",
    ),
    Unknown(
        "updates",
        "Does an update keep the other fields?",
        (
            Value("yes", {}, "assumed"),
            Value("no", {"updates": "reset others"}, "refused", "The first website is restored, the task fails"),
        ),
        noticed="All fields of the first website of a run are compared. If others changed, it is restored.",
        noticed_by=f"{_MISBEHAVING}::test_two_websites_are_changed_and_put_back",
        extra="update_method",
        promises=(OTHERS,),
        needs="An update keeps the fields that were not sent.",
    ),
    Unknown(
        "stored",
        "Are values stored as sent?",
        (
            Value("yes", {}, "assumed"),
            Value("only new lines", {"lists_stored": "new lines"}, "refused", _FAILS),
            Value("only the last line", {"lists_stored": "last line"}, "refused", _FAILS),
            Value("without comments", {"lists_stored": "no comments"}, "refused", _FAILS),
            Value("without networks", {"lists_stored": "no networks"}, "refused", _FAILS),
            Value("the first 40 characters", {"lists_stored": "40 characters"}, "refused", _FAILS),
            Value("normalized", {"lists_stored": "normalized"}),
        ),
        noticed="Each website is fetched after its change and compared with before + sent.",
        noticed_by=f"{_MISBEHAVING}::test_no_way_to_write_is_green_where_the_service_does_something_else",
    ),
    Unknown(
        "responses",
        "What does the response to a write contain?",
        (
            Value("what is stored", {}, "assumed"),
            Value("what was sent", {"echoes": {"create", "update"}}),
            Value("a message", {"message_answers": {"create", "update", "delete"}}),
            Value("id and domain", {"short_answers": {"create", "update"}}),
            Value("no body", {"empty_answers": {"create", "update", "delete"}}),
        ),
        noticed="After each write the website is fetched, regardless of the response.",
        noticed_by=f"{_API}/test_look_up.py::test_what_a_short_answer_does_not_show_is_read",
    ),
    Unknown(
        "deletes",
        "What does a delete do?",
        (
            Value("removes the website", {}, "assumed"),
            Value("marks it", {"deletes": "mark"}),
            Value("nothing", {"deletes": "keep"}, "refused", _FAILS),
        ),
        noticed="A deleted website is requested again.",
        noticed_by=f"{_MISBEHAVING}::test_a_delete_that_is_not_done_is_never_green",
        promises=(SUCCESS,),
        needs="A deleted website is absent or marked.",
    ),
    Unknown(
        "secrets",
        "Do records contain secrets?",
        (
            Value("no", {}, "assumed"),
            Value("yes", {"extra_fields": {"api_token": "{api_key}"}}),
        ),
        asked="the names of keys in all responses",
        noticed="Such keys are dropped from data; text is redacted.",
        noticed_by="tests/security/test_records_are_data.py::"
        "test_no_key_that_names_a_secret_is_in_xcom_or_in_a_snapshot",
        promises=(SECRETS,),
        needs="A secret has a key that identifies it, or contains a secret of the connection.",
    ),
)

BY_NAME: Mapping[str, Unknown] = {unknown.name: unknown for unknown in UNKNOWNS}
