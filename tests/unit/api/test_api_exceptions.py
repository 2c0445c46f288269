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
    exceptions.DomainError("2 websites have it.", ["1", "2"], "Delete one.", "delete one first"),
    exceptions.NotAppliedError("7", {"privacy": "is 'public', sent was 'private'"}),
    exceptions.GuardError("too much"),
    exceptions.StoppedError("Stopped: 3 of 7 websites changed."),
    exceptions.BulkError({"a.example": "no"}, done=3),
    exceptions.StorageError("no space"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_every_error_survives_pickling_with_all_it_knows(error: Any) -> None:
    error.earlier = (exceptions.AnalyticsConnectionError("before"),)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error) != ""
    assert vars(again).keys() == vars(error).keys()
    assert {name: value for name, value in vars(again).items() if name != "earlier"} == {
        name: value for name, value in vars(error).items() if name != "earlier"
    }
    assert str(again.earlier[0]) == str(error.earlier[0])


def test_every_class_of_the_tree_is_tried() -> None:
    def below(kind: type[AnalyticsError]) -> set[type[AnalyticsError]]:
        return {kind}.union(*(below(child) for child in kind.__subclasses__() if child.__module__ == kind.__module__))

    assert below(AnalyticsError) - {AnalyticsError} == {type(error) for error in ERRORS}


POOL = "If many tasks run at the same time, give them an Airflow pool."


@pytest.mark.parametrize(
    ("error", "status", "happened", "remedy"),
    [
        (exceptions.AuthenticationError, 401, "API key rejected", "Correct the API key of the connection."),
        (
            AnalyticsApiError,
            403,
            "The API key does not have the permission for this request",
            "Use the key of an account that has it.",
        ),
        (exceptions.NotFoundError, 404, "Not found", "Check website id 7 and the Base URL."),
        (AnalyticsApiError, 422, "The service rejected a value", ""),
        (
            AnalyticsApiError,
            429,
            "The service limits the rate of requests",
            f"Set the extra requests_per_minute, and parallel_requests if the limit is per second. {POOL}",
        ),
        (AnalyticsApiError, 500, "The service failed", ""),
        (
            AnalyticsApiError,
            503,
            "The service failed",
            "If it limits the rate of requests, set the extra requests_per_minute, and parallel_requests if the limit "
            f"is per second. {POOL}",
        ),
        (AnalyticsApiError, 405, "The service does not accept PATCH", "Set the extra update_method to PUT."),
        (AnalyticsApiError, 418, "The service refused the request", ""),
    ],
)
def test_a_message_says_what_happened_what_to_do_and_where(
    error: type[AnalyticsApiError], status: int, happened: str, remedy: str
) -> None:
    raised = error(status, "PATCH", "/api/v1/websites/7", "said no", {}, ["Retry-After 42 s"])
    raised.where = "https://stats.example.com/app, connection 'a'"
    assert raised.problem == f"{happened} ({status} {HTTPStatus(status).phrase}, Retry-After 42 s)."
    assert raised.remedy == remedy
    assert str(raised) == (
        f"{raised.problem}{f' {remedy}' if remedy else ''} The service says: said no. "
        "Request: PATCH /api/v1/websites/7.\nService: https://stats.example.com/app, connection 'a'."
    )


def test_a_web_page_that_refuses_is_no_rejected_key() -> None:
    blocked = AnalyticsApiError(403, "GET", "/p", "", {}, ["page 'Just a moment...'"], is_blocked=True)
    assert blocked.text == (
        "A web page refused the request (403 Forbidden, page 'Just a moment...'). Check the key and the firewall, see "
        "the extra 'headers'. Request: GET /p."
    )
    assert not blocked.before_retry


def test_a_rejected_boolean_names_the_extra_that_sets_its_format() -> None:
    rejected = exceptions.AnalyticsApiError(422, "PATCH", "/p", "bad", {"favorite": ["must be true or false"]})
    assert "boolean_format" in str(rejected)
    for errors in ({"email": ["must be true or false"]}, {"favorite": ["At most 1 website may be a favorite."]}):
        assert "boolean_format" not in str(exceptions.AnalyticsApiError(422, "PATCH", "/p", "bad", errors))


@pytest.mark.parametrize("separator", [" ", "\n"])
@pytest.mark.parametrize("limit", [60, 120, 200, 1000])
def test_a_text_is_cut_between_words(separator: str, limit: int) -> None:
    words = [f"word-{number:0{limit // 3}}" for number in range(9)]
    cut = readable(separator.join(words), limit, breaks="keep").removesuffix("...")
    assert cut.split(separator) == words[: len(cut.split(separator))]


def test_a_validation_error_tells_each_field() -> None:
    text = str(exceptions.AnalyticsApiError(422, "POST", "/p", "bad", {"b": ["x", "y"], "a": ["z"]}))
    assert "[a: z; b: x y]" in text
