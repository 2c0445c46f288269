from __future__ import annotations

import pickle
from typing import Any

import pytest

from airflow_provider_analytics import exceptions
from airflow_provider_analytics.exceptions import AnalyticsApiError, AnalyticsError

ERRORS: list[AnalyticsError] = [
    exceptions.AnalyticsConfigError(["one", "two"], "connection 'a'"),
    *(
        kind(status, "GET", "/api/v1/websites/7", "no", {"domain": ["taken"]}, "connection 'a'")
        for kind, status in (
            (exceptions.AnalyticsApiError, 400),
            (exceptions.AuthenticationError, 401),
            (exceptions.PermissionDeniedError, 403),
            (exceptions.NotFoundError, 404),
            (exceptions.ValidationError, 422),
            (exceptions.RateLimitError, 429),
            (exceptions.ServerError, 500),
        )
    ),
    exceptions.AnalyticsConnectionError("broke off", "GET", "/p", 200, "begin"),
    exceptions.AnalyticsTimeoutError("too late", "GET", "/p"),
    exceptions.UnexpectedResponseError("no JSON", 200, "GET", "/p", "<html>"),
    exceptions.IncompleteListError("total", "5 of 7", moved=True),
    exceptions.AmbiguousWriteError("unknown", "POST", "/p", "a.example"),
    exceptions.DuplicateWebsiteError("a.example", ["1", "2"]),
    exceptions.UnsafePlanError("too much"),
    exceptions.BulkError({"a.example": "no"}, done=3),
    exceptions.SnapshotError("no space"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_every_error_survives_pickling_with_all_it_knows(error: Any) -> None:
    error.earlier = (exceptions.AnalyticsTimeoutError("before"),)
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


@pytest.mark.parametrize(
    ("status", "hint"),
    [(401, "password field of connection 'a'"), (403, "permission"), (404, "website id"), (429, "requests_per_minute")],
)
def test_messages_say_what_was_asked_what_came_back_and_what_to_do(status: int, hint: str) -> None:
    text = str(AnalyticsApiError(status, "GET", "/api/v1/websites/7", "said no", None, "connection 'a'"))
    assert text.startswith(f"GET /api/v1/websites/7 returned status {status}: said no")
    assert hint in text


def test_a_validation_error_tells_each_field() -> None:
    text = str(exceptions.ValidationError(422, "POST", "/p", "bad", {"b": ["x", "y"], "a": ["z"]}))
    assert "[a: z; b: x y]" in text
