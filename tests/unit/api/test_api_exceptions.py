# SPDX-License-Identifier: Apache-2.0
"""Exceptions of the package: classes, messages, and pickling (``exceptions.py``)."""

from __future__ import annotations

import pickle
from http import HTTPStatus
from typing import Any

import pytest

from airflow_provider_analytics import exceptions
from airflow_provider_analytics.exceptions import AnalyticsApiError, AnalyticsError
from airflow_provider_analytics.readable import readable

ERRORS: list[AnalyticsError] = [
    exceptions.AnalyticsConfigError(["one", "two"], "connection 'a'"),
    *(
        kind(status, "GET", "/api/v1/websites/7", "no", {"domain": ["taken"]}, ["CF-Ray 8f1"])
        for kind, status in (
            (exceptions.AnalyticsApiError, 400),
            (exceptions.AuthenticationError, 401),
            (exceptions.NotFoundError, 404),
            (exceptions.AnalyticsApiError, 422),
        )
    ),
    exceptions.AnalyticsApiError(403, "GET", "/p", "", {}, ["page 'Just a moment...'", "CF-Ray 8f1"], is_blocked=True),
    exceptions.AnalyticsConnectionError("broke off", "GET", "/p", 200, "begin", sent=False, transient=False),
    exceptions.UnexpectedResponseError("no JSON", 200, "GET", "/p", "<html>"),
    exceptions.IncompleteListError("total", "5 of 7", moved=True),
    exceptions.AmbiguousWriteError("unknown", "a.example"),
    exceptions.DomainError(
        "2 websites have it.", ["1", "2"], "Delete one.", permanent=True, before_retry="delete one first"
    ),
    exceptions.NotAppliedError("7", {"privacy": "is 'public', sent was 'private'"}),
    exceptions.GuardError("too much"),
    exceptions.StoppedError("Stopped: 3 of 7 websites changed."),
    exceptions.BulkError({"a.example": "no"}, done=3),
    exceptions.StorageError("no space"),
    exceptions.MissingSnapshotError("No snapshot of 2026-11-20 is published."),
    exceptions.MissingPackageError("format='parquet' needs pyarrow."),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_every_error_survives_pickling_with_all_its_attributes(error: Any) -> None:
    error.earlier = (exceptions.AnalyticsConnectionError("before"),)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error) != ""
    assert vars(again).keys() == vars(error).keys()
    assert {name: value for name, value in vars(again).items() if name != "earlier"} == {
        name: value for name, value in vars(error).items() if name != "earlier"
    }
    assert str(again.earlier[0]) == str(error.earlier[0])


def test_every_exception_class_is_tested() -> None:
    def below(kind: type[AnalyticsError]) -> set[type[AnalyticsError]]:
        return {kind}.union(*(below(child) for child in kind.__subclasses__() if child.__module__ == kind.__module__))

    assert below(AnalyticsError) - {AnalyticsError} == {type(error) for error in ERRORS}


@pytest.mark.parametrize(
    ("status", "happened", "remedy"),
    [
        (401, "API key rejected", "Correct the API key of the connection."),
        (403, "The service rejected the request: said no", ""),
        (404, "No website has the id 7, or the Base URL is wrong", ""),
        (
            405,
            "The service, or a proxy before it, does not accept PATCH",
            "Allow PATCH in the proxy or firewall, or set the extra update_method to PUT if PUT keeps unsent fields. "
            "The sample DAG try_your_service.py finds out.",
        ),
        (422, "The service rejected the request: said no", ""),
        (500, "The service failed", "Check the log of the service."),
        (502, "The service failed", "Check the logs of the service and of the proxy in front of it."),
    ],
)
def test_error_message_names_the_event_the_next_step_and_the_place(status: int, happened: str, remedy: str) -> None:
    kinds = {401: exceptions.AuthenticationError, 404: exceptions.NotFoundError}
    raised = kinds.get(status, AnalyticsApiError)(
        status, "PATCH", "/api/v1/websites/7", "said no", {}, ["Retry-After 42 s"]
    )
    raised.where = "Service: https://stats.example.com/app, connection 'a'"
    assert raised.problem == f"{happened} ({status} {HTTPStatus(status).phrase}, Retry-After 42 s)."
    assert raised.remedy == remedy
    message = ["The service says: said no."]
    if "said no" in happened:
        message = []
    text = str(raised).replace("\n", " ")
    expected = [
        *filter(None, (raised.problem, remedy)),
        *message,
        "Request: PATCH /api/v1/websites/7.",
        "Service: https://stats.example.com/app, connection 'a'.",
    ]
    assert text == " ".join(expected)


def test_rejection_names_the_fields() -> None:
    errors = {"privacy": ["The selected privacy is invalid."], "exclude_ips": ["Too long."]}
    error = AnalyticsApiError(422, "PATCH", "/api/v1/websites/7", "The given data was invalid.", errors)
    assert error.problem.startswith("The service rejected exclude_ips, privacy (422 ")


@pytest.mark.parametrize(
    ("status", "permanent", "before_retry"),
    [
        (401, True, "correct the API key first"),
        (403, True, "use a key with this permission first"),
        (413, True, "shorten the list or raise the limit first"),
        (422, True, "correct the value first"),
        (404, False, ""),
        (429, False, ""),
        (500, False, ""),
        (503, False, ""),
    ],
)
def test_rejection_that_a_retry_cannot_change_is_permanent(status: int, permanent: bool, before_retry: str) -> None:
    error = AnalyticsApiError(status, "PATCH", "/api/v1/websites/7", "")
    assert (error.permanent, error.before_retry) == (permanent, before_retry)


def test_rejection_without_a_field_says_how_to_find_it() -> None:
    error = AnalyticsApiError(422, "PATCH", "/api/v1/websites/7", "")
    assert error.remedy == "The response names no field. Check the log, or send fields one by one."


def test_taken_domain_that_the_list_lacks_might_belong_to_another_account() -> None:
    errors = {"domain": ["The domain has already been taken."]}
    error = AnalyticsApiError(422, "POST", "/api/v1/websites", "Invalid.", errors)
    assert error.remedy == "A deleted website, or one of another account, might have this domain."
    assert (error.permanent, error.before_retry) == (True, "find the website with this domain first")


def test_missing_csrf_token_needs_a_change_of_the_service() -> None:
    error = AnalyticsApiError(419, "POST", "/api/v1/websites", "CSRF token mismatch.")
    assert error.problem == "The service requires a CSRF token for writes, which only a browser has (419)."
    assert error.remedy == "In the service, except api/* from the check of CSRF tokens."
    assert (error.permanent, error.before_retry) == (True, "change the service first")


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/websites/7/archive", "No website has the id 7, or the Base URL is wrong"),
        ("/websites", "Not found"),
        ("/websites/", "Not found"),
    ],
)
def test_missing_website_is_named_by_the_id_in_the_path(path: str, problem: str) -> None:
    error = exceptions.NotFoundError(404, "GET", f"/api/v1{path}", "", {}, [])
    assert error.problem == f"{problem} (404 Not Found)."


@pytest.mark.parametrize(
    ("status", "is_limited", "is_rejected"), [(403, False, True), (403, True, False), (405, False, True)]
)
def test_method_is_not_rejected_by_a_rate_limit(status: int, is_limited: bool, is_rejected: bool) -> None:
    error = AnalyticsApiError(status, "PATCH", "/api/v1/websites/7", "slow down", is_limited=is_limited)
    assert error.is_rejected_method == is_rejected


def test_long_message_has_several_lines_and_its_text_for_the_log_of_retries_has_one() -> None:
    """Airflow cuts long lines."""
    error = AnalyticsError("The connection is closed. " * 3, "Check the proxy. " * 3)
    error.so_far = "9 of 30 websites changed."
    assert max(map(len, str(error).splitlines())) <= 90
    assert error.text == str(error).replace("\n", " ") != str(error)
    short = exceptions.NotFoundError(404, "GET", "/p", "")
    assert str(short) == "Not found (404 Not Found). Check the Base URL. Request: GET /p."


@pytest.mark.parametrize("separator", [" ", "\n"])
@pytest.mark.parametrize("limit", [60, 120, 200, 1000])
def test_text_is_cut_between_words(separator: str, limit: int) -> None:
    words = [f"word-{number:0{limit // 3}}" for number in range(9)]
    cut = readable(separator.join(words), limit, breaks="keep").removesuffix("...")
    assert cut.split(separator) == words[: len(cut.split(separator))]


@pytest.mark.parametrize(
    ("message", "is_about_the_key"),
    [
        ("Invalid ability provided.", True),
        ("Forbidden", True),
        ("Your IP address is not allowed", False),
        ("Access denied in your country", False),
        ("Your plan does not have this permission", False),
        ("Account suspended: permission denied", False),
    ],
)
def test_forbidden_request_has_a_remedy_only_if_the_key_is_the_cause(message: str, is_about_the_key: bool) -> None:
    error = AnalyticsApiError(403, "GET", "/api/v1/account", message)
    assert (error.remedy == "Use the key of an account that has it.") is is_about_the_key


def test_status_of_a_cdn_does_not_blame_the_log_of_the_service() -> None:
    error = AnalyticsApiError(530, "GET", "/api/v1/account", "error code: 1033")
    assert (error.problem, error.remedy) == (
        "A CDN got no valid response from the service (530).",
        "Check that the service runs.",
    )
