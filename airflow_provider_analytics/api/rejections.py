# SPDX-License-Identifier: Apache-2.0
"""Responses with an error status: the error for each, and whether its request can be repeated."""

from __future__ import annotations

from http import HTTPStatus

from airflow_provider_analytics.api import laravel
from airflow_provider_analytics.api.laravel import Answer
from airflow_provider_analytics.api.waiting import MAX_WAIT
from airflow_provider_analytics.exceptions import (
    AnalyticsApiError,
    AnalyticsConnectionError,
    AnalyticsError,
    AuthenticationError,
    NotFoundError,
    UnexpectedResponseError,
)
from airflow_provider_analytics.readable import readable

#: Seconds for which a request is repeated while the service rejects it because of a rate limit, unless ``max_retries``
#: is 0. They start again with each request of the same kind (read or write) that the service accepts. Limits such as
#: the one of Laravel count per minute, and other tasks can use up the next minute, too.
REJECTED_SECONDS = 180.0
#: The same for a 429 with the time of the reset: then other tasks of the key used up the time since.
ANNOUNCED_SECONDS = 1800.0
#: CDNs use 520 to 530 in addition to the standard 5xx.
_RETRIED_STATUSES = frozenset({408, 429, 500, 502, 503, 504, *range(520, 531)})
_ERRORS: dict[int, type[AnalyticsApiError]] = {401: AuthenticationError, 404: NotFoundError, 410: NotFoundError}


def status_error(answer: Answer, *, follows_success: bool) -> AnalyticsError:
    """Return the typed error for a status that does not mean success.

    :param follows_success: whether a request of this client succeeded before.
    """
    status = answer.status
    if status < 400:
        target = readable(answer.headers.get("Location", ""), is_part=True)
        if not target:
            return answer.unexpected("The status means neither success nor an error.")
        base_url = laravel.base_url_of_redirect(answer)
        if base_url:
            return answer.unexpected(
                f"The service redirects to '{target}'. Redirects are not followed. Set the Base URL to '{base_url}'."
            )
        return answer.unexpected(
            f"The service redirects to '{target}'. Redirects are not followed. If the service has moved, change the "
            f"Base URL. If this is a sign-in page, allow {laravel.API_PREFIX} without it."
        )
    message, errors = laravel.error_details(answer)
    facts = laravel.error_facts(answer)
    kind = _ERRORS.get(status, AnalyticsApiError)
    is_limited = laravel.is_limited(answer)
    is_denied = status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
    is_blocked = is_denied and not is_limited and laravel.is_html(answer)
    if is_blocked:
        kind, message = AnalyticsApiError, ""
        facts.insert(0, f"page '{laravel.page_title(answer) or answer.excerpt(60)}'")
    is_invalid = status == HTTPStatus.UNPROCESSABLE_ENTITY
    if status == HTTPStatus.BAD_REQUEST and answer.method != "GET":
        is_invalid = laravel.error_object(answer) is not None
    error = kind(
        status,
        answer.method,
        answer.path,
        message,
        errors,
        facts,
        is_blocked,
        is_limited,
        is_invalid,
        follows_success,
    )
    if is_limited or status >= 500:
        error.retry_after = laravel.retry_after(answer.headers)
    return error


def might_have_been_applied(error: BaseException) -> bool:
    """Return whether the service might have applied the request that failed with this error.

    Only three cases prove that it has not: the request never left this machine, the service rejected it with a 4xx
    other than 408, or nginx rejected it with its own page. Any other 5xx proves nothing, with or without
    ``Retry-After``: a proxy can return it after forwarding the request.
    """
    if isinstance(error, AnalyticsConnectionError):
        return error.sent
    if isinstance(error, AnalyticsApiError):
        return (error.status >= 500 and not error.is_limited) or error.status == 408
    return isinstance(error, UnexpectedResponseError)


def is_rate_limit(error: AnalyticsError) -> bool:
    """Return whether the service asks to slow down, with or without ``Retry-After``."""
    if error.retry_after is not None:
        return True
    return isinstance(error, AnalyticsApiError) and (error.is_limited or error.status == 503)


def patience(error: AnalyticsError) -> float:
    """Return for how many seconds to repeat a request that the service rejects."""
    is_limit = isinstance(error, AnalyticsApiError) and error.status < 500
    if is_limit and error.retry_after is not None:
        return ANNOUNCED_SECONDS
    return REJECTED_SECONDS


def may_be_repeated(error: AnalyticsError, method: str) -> bool:
    """Return whether the request with this method that failed can be repeated, and that might help."""
    if method == "POST" and might_have_been_applied(error):
        return False
    if isinstance(error, AnalyticsApiError):
        is_passing = error.is_limited or error.status in _RETRIED_STATUSES
        return is_passing and (error.retry_after or 0.0) <= MAX_WAIT
    if isinstance(error, UnexpectedResponseError):
        return error.is_garbled and error.method == "GET"
    return isinstance(error, AnalyticsConnectionError) and error.transient
