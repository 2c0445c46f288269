# SPDX-License-Identifier: Apache-2.0
"""One operator for each operation on websites."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import BaseOperator

from airflow_provider_analytics.api.checks import flag, invalid, invalid_together, short_repr, whole_number
from airflow_provider_analytics.exceptions import AnalyticsError, DomainError, NotFoundError
from airflow_provider_analytics.operators.base import ARGUMENTS, AnalyticsBaseOperator, arguments_of, permanent_failure
from airflow_provider_analytics.operators.links import WebsiteLink
from airflow_provider_analytics.readable import counted

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_analytics.api.client import WriteResult
    from airflow_provider_analytics.api.fields import Privacy
    from airflow_provider_analytics.hooks.analytics import AnalyticsHook
    from airflow_provider_analytics.reconcile.desired.list_lines import EntryList


class ListWebsitesOperator(AnalyticsBaseOperator):
    """Return the complete list of websites, if it is short enough for XCom.

    For a longer list, use ``SnapshotWebsitesOperator``, which writes the websites to storage.

    .. code-block:: python

        ListWebsitesOperator(task_id="favorites", favorite=True, sort_by="domain", sort="asc")

    :param search: search text; the service decides which websites match. (templated)
    :param search_by: field to search: ``domain``. (templated)
    :param favorite: only favorites (True) or only others (False). (templated)
    :param sort_by: ``id`` (date of creation, default) or ``domain``. (templated)
    :param sort: ``desc`` (default) or ``asc``. (templated)
    :param per_page: websites per request: 10, 25, 50, or 100 (default). (templated)
    :param max_records: longest list that is returned; a longer one fails the task; default 1000. (templated)
    :param analytics_conn_id: id of a connection of type ``analytics``. (templated)
    :return: website records as the service returns them, dicts without secrets.
    :raises AirflowFailException: without a retry, if the list is longer than ``max_records``.
    :raises IncompleteListError: if the list cannot be proven complete.
    """

    def __init__(
        self,
        *,
        search: str | None = None,
        search_by: str | None = None,
        favorite: bool | None = None,
        sort_by: str | None = None,
        sort: str | None = None,
        per_page: int | None = None,
        max_records: int = 1000,
        analytics_conn_id: str = "analytics_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(analytics_conn_id=analytics_conn_id, **kwargs)
        self.search = search
        self.search_by = search_by
        self.favorite = favorite
        self.sort_by = sort_by
        self.sort = sort
        self.per_page = per_page
        self.max_records = max_records
        self.check_arguments()

    template_fields = arguments_of(__init__)

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Read the list; fail if it is too long."""
        from airflow_provider_analytics.api.listing import read_again

        names = ("search", "search_by", "favorite", "sort_by", "sort", "per_page")
        filters = {name: getattr(self, name) for name in names}
        with self.connected(context) as hook:
            limit = whole_number("max_records", self.max_records, at_least=1)
            most = min(limit + 1, sys.maxsize)
            websites = read_again(
                lambda listing: list(islice(listing, most)), lambda: hook.client.iter_websites(**filters)
            )
            if len(websites) > limit:
                raise permanent_failure(
                    f"The list has more websites than max_records={limit} allows, because XComs should be small. "
                    "Use SnapshotWebsitesOperator, which writes the list to storage and returns its path.",
                    "use the other operator or raise max_records first",
                )
            self.log.info("Read %s.", counted(len(websites), "website"))
            return hook.client.for_output(websites)


class GetWebsiteOperator(AnalyticsBaseOperator):
    """Return one website.

    .. code-block:: python

        GetWebsiteOperator(task_id="read", domain="shop.example.com")

    :param website_id: id of the website. (templated)
    :param domain: instead of ``website_id``. (templated)
    :param analytics_conn_id: id of a connection of type ``analytics``. (templated)
    :return: the website record as the service returns it, a dict without secrets.
    :raises AirflowFailException: without a retry, if the domain has several websites.
    :raises NotFoundError: if there is no website with this id.
    :raises DomainError: if no website has the domain.
    """

    operator_extra_links = (WebsiteLink(),)

    def __init__(
        self,
        *,
        website_id: int | str | None = None,
        domain: str | None = None,
        analytics_conn_id: str = "analytics_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(analytics_conn_id=analytics_conn_id, **kwargs)
        self.website_id = website_id
        self.domain = domain
        self.check_arguments()

    template_fields = arguments_of(__init__)

    def execute(self, context: Context) -> dict[str, Any]:
        """Fetch the website."""
        from airflow_provider_analytics.api.fields import website_name, website_of

        with self.connected(context) as hook:
            if self.website_id is not None and self.domain is not None:
                raise invalid_together(website_id=self.website_id, domain=self.domain)
            website = hook.get_website(_find_id(hook, self.website_id, self.domain))
            self.log.info("Read website %s.", website_name(*website_of(website)))
            return hook.client.for_output(website)


class _SettingsOperator(AnalyticsBaseOperator):
    """Base class of the operators that set fields of a website."""

    operator_extra_links = (WebsiteLink(),)
    privacy: Privacy | int | str | None
    password_from: str | None

    def __init__(self, *, domain: str | None, **kwargs: Any) -> None:
        email = kwargs.get("email")
        if _is_flag(email):  # checked here, because Airflow accepts any value silently
            allowed = "an e-mail address for Airflow's alerts. To set the field email of the website, use email_reports"
            wrong = invalid("email", email, allowed)
            if self.is_mapped:
                raise permanent_failure(f"{domain}: {wrong}", "correct the row first")
            raise wrong
        if self.is_mapped:
            # Airflow would raise an error with all values, also a password, and retry it.
            known = inspect.signature(BaseOperator.__init__).parameters.keys() | {"analytics_conn_id"}
            unknown = sorted(kwargs.keys() - known)
            if unknown:
                problem = f"{domain}: {', '.join(unknown)} is not an argument of {type(self).__name__}"
                raise permanent_failure(problem, "correct the row first")
        super().__init__(**kwargs)

    def check_arguments(self) -> None:
        """Check the password and the lists, too."""
        from airflow_provider_analytics.api.fields import LINE_FIELDS, PASSWORD_FROM, check_password_has_effect

        super().check_arguments()
        if self.are_literal("privacy", PASSWORD_FROM):
            check_password_has_effect({"privacy": self.privacy, PASSWORD_FROM: self.password_from})
        for name in LINE_FIELDS:
            if getattr(self, name) is not None and self.are_literal(name):
                _parse_list(name, getattr(self, name))

    def _settings(self, hook: AnalyticsHook, names: Iterable[str]) -> dict[str, Any]:
        """Return the given settings, with the password from ``password_from``."""
        from airflow_provider_analytics.api.fields import LINE_FIELDS
        from airflow_provider_analytics.operators.reconciling import passwords_of

        settings = {name: getattr(self, ARGUMENTS.get(name, name)) for name in names}
        for name in LINE_FIELDS:
            if settings[name] is not None:
                settings[name] = _lines(name, settings[name])
        if (reference := settings.get("password")) is not None:
            settings["password"] = passwords_of({reference: ["the website"]}, hook.client.redact)[reference]
        return {name: value for name, value in settings.items() if value is not None}


def _is_flag(value: object) -> bool:
    """Return whether a value means true or false, such as ``True``, ``1``, and the text ``"true"`` of a table."""
    if value is None:
        return False
    try:
        flag("email", value)
    except ValueError:
        return isinstance(value, int)
    return True


class CreateWebsiteOperator(_SettingsOperator):
    """Create a website, unless one with this domain exists.

    The operator reads the complete list first, so that a retry does not create a second website. If two tasks create
    the same website at the same time, at most one of them succeeds.

    .. code-block:: python

        CreateWebsiteOperator(task_id="create", domain="shop.example.com", privacy="private", exclude_ips=["192.0.2.7"])

    :param domain: domain without scheme, port, or path. (templated)
    :param privacy: ``public`` (0), ``private`` (1), or ``password`` (2). Without it, the page is public, and a warning
        says so. (templated)
    :param password_from: place of the page password, for privacy ``password``: ``connection:NAME`` or
        ``variable:NAME``; the name starts with ``page_password``. (templated)
    :param email_reports: send periodic e-mail reports, the field ``email`` of the service. (templated)
    :param exclude_bots: exclude common bots. (templated)
    :param exclude_params: excluded URL query parameters as a list, or as text with one entry per line. Comments after
        ``#`` are not sent; ``{"entry": "utm", "comment": "ads"}`` sends one. (templated)
    :param exclude_ips: excluded IP addresses, as ``exclude_params``. A network is sent as it is. (templated)
    :param if_exists: if the website exists, ``skip`` (default) leaves it unchanged and reports different settings,
        ``update`` updates them, and ``fail`` fails the task without a retry. (templated)
    :param analytics_conn_id: id of a connection of type ``analytics``. (templated)
    :return: a dict with these keys:

        * ``website_id`` (number or string, such as ``7``): id of the website.
        * ``domain`` (string or null, such as ``"shop.example.com"``): domain of the website.
        * ``created`` (boolean, such as ``true``): true if this run created the website.
        * ``updated`` (list of strings, such as ``[]``): fields that this run updated.
        * ``differing`` (list of strings, such as ``[]``): with ``if_exists="skip"``: fields that differ, or that the
          service does not return.
        * ``unverified`` (list of strings, such as ``["password"]``): sent fields that the service does not return.
        * ``verified`` (boolean, such as ``false``): true if all fields are as requested, and nothing else changed.
        * ``unexpected_changes`` (list of strings, such as ``[]``): fields that this task did not send, and that differ
          afterwards.
        * ``website`` (object, such as ``{"id": 7, "domain": "shop.example.com"}``): the record as the service returns
          it, without secrets.

    :raises AirflowFailException: without a retry, if the service rejects a value, the website exists and
        ``if_exists="fail"``, the website was created but is not as requested, the domain has several websites,
        or the list has the domain with or without ``www.`` instead. To create both, list both in a websites file.
    :raises AmbiguousWriteError: if it is unclear whether the website was created; a retry reads the list first.
    """

    def __init__(
        self,
        *,
        domain: str,
        privacy: Privacy | int | str | None = None,
        password_from: str | None = None,
        email_reports: bool | None = None,
        exclude_bots: bool | None = None,
        exclude_params: Iterable[str] | str | None = None,
        exclude_ips: Iterable[str] | str | None = None,
        if_exists: str = "skip",
        analytics_conn_id: str = "analytics_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(domain=domain, analytics_conn_id=analytics_conn_id, **kwargs)
        self.domain = domain
        self.privacy = privacy
        self.password_from = password_from
        self.email_reports = email_reports
        self.exclude_bots = exclude_bots
        self.exclude_params = exclude_params
        self.exclude_ips = exclude_ips
        self.if_exists = if_exists
        self.check_arguments()

    template_fields = arguments_of(__init__)

    def execute(self, context: Context) -> dict[str, Any]:
        """Look up the domain, and create the website if it is missing."""
        from airflow_provider_analytics.api.fields import CREATE_FIELDS, check_create

        with self.connected(context) as hook:
            settings = check_create(**self._settings(hook, CREATE_FIELDS))
            try:
                written = hook.client.ensure_website(self.domain, **settings)
            except AnalyticsError as error:
                if not error.created:
                    raise
                # A retry would find the website, and if_exists="skip" would leave it unchanged.
                error.where = error.where or hook.where
                first = f"check the website. It exists now, and a retry would apply if_exists={self.if_exists!r}"
                problem = f"Website {self.domain} was created, but not completed: {error}"
                raise permanent_failure(problem, first) from None
            if not written.created:
                return self._handle_existing(hook, written, settings)
            self._log_created(written.record["id"], settings)
            return _result(hook, written, created=True)

    def _log_created(self, website_id: int | str, settings: Mapping[str, Any]) -> None:
        self.log.info("Created website %s with id %s.", self.domain, website_id)
        if "privacy" not in settings:
            self.log.warning(
                "The statistics page of %s is public, because privacy was not given. To hide it, set "
                "privacy='private'.",
                self.domain,
            )
        if _lacks_password(settings):
            self.log.warning(
                "The privacy of %s is 'password', and no password was given. Set password_from as well, and check its "
                "statistics page.",
                self.domain,
            )

    def _handle_existing(
        self, hook: AnalyticsHook, written: WriteResult, settings: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Fail, update the website, or leave it unchanged, as ``if_exists`` says."""
        from airflow_provider_analytics.api.fields import differing_fields

        website_id = written.record["id"]
        if self.if_exists == "fail":
            raise permanent_failure(
                f"Website {self.domain} already exists, with id {website_id}. If an earlier try lost the response to "
                "its create, it might have created it. Set if_exists to 'skip' or 'update' to allow it.",
                "change if_exists or the domain",
            )
        differing = differing_fields(written.record, settings)
        named = ", ".join(differing)
        if not differing:
            self.log.info("Website %s exists, with id %s. No setting differs.", self.domain, website_id)
        elif self.if_exists == "update":
            self.log.info("Website %s exists, with id %s. Updating: %s.", self.domain, website_id, named)
            changes = {name: settings[name] for name in differing}
            if "password" in changes:  # no service returns it, and it is allowed only together with the privacy
                changes["privacy"] = settings["privacy"]
            updated = hook.client.update_website(website_id, expected_domain=self.domain, **changes)
            return _result(hook, updated, updated=differing)
        else:
            self.log.warning(
                "Website %s exists, with id %s, and was left unchanged. Settings that differ or are not returned: %s.",
                self.domain,
                website_id,
                named,
            )
        return _result(hook, written, differing=differing)


def _lacks_password(settings: Mapping[str, Any]) -> bool:
    """Return whether the privacy becomes *password*, and no password is given."""
    return settings.get("privacy") == "password" and "password" not in settings


class UpdateWebsiteOperator(_SettingsOperator):
    """Change settings of a website. Other settings are kept.

    .. code-block:: python

        UpdateWebsiteOperator(task_id="hide", domain="shop.example.com", privacy="private", favorite=True)

    :param website_id: id of the website. (templated)
    :param domain: instead of ``website_id``. Give both if you know both: a website that has got the id of a deleted one
        is then never changed. (templated)
    :param privacy: ``public`` (0), ``private`` (1), or ``password`` (2). (templated)
    :param password_from: place of the page password, for privacy ``password``: ``connection:NAME`` or
        ``variable:NAME``; the name starts with ``page_password``. (templated)
    :param email_reports: send periodic e-mail reports, the field ``email`` of the service. (templated)
    :param exclude_bots: exclude common bots. (templated)
    :param exclude_params: excluded URL query parameters as a list, or as text with one entry per line. Comments after
        ``#`` are not sent; ``{"entry": "utm", "comment": "ads"}`` sends one. ``[]`` clears the list; text without
        entries is an error. (templated)
    :param exclude_ips: excluded IP addresses, as ``exclude_params``. A network is sent as it is. (templated)
    :param favorite: mark as favorite. (templated)
    :param analytics_conn_id: id of a connection of type ``analytics``. (templated)
    :return: a dict with the keys of ``CreateWebsiteOperator``.
    :raises AirflowFailException: without a retry, if the service rejects a value, the domain has several websites, or
        the website of the id has another domain.
    :raises NotAppliedError: if the sent values are not in effect afterwards, or other fields changed.
    :raises NotFoundError: if there is no website with this id.
    :raises DomainError: if no website has the domain.
    """

    def __init__(
        self,
        *,
        website_id: int | str | None = None,
        domain: str | None = None,
        privacy: Privacy | int | str | None = None,
        password_from: str | None = None,
        email_reports: bool | None = None,
        exclude_bots: bool | None = None,
        exclude_params: Iterable[str] | str | None = None,
        exclude_ips: Iterable[str] | str | None = None,
        favorite: bool | None = None,
        analytics_conn_id: str = "analytics_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(domain=domain, analytics_conn_id=analytics_conn_id, **kwargs)
        self.website_id = website_id
        self.domain = domain
        self.privacy = privacy
        self.password_from = password_from
        self.email_reports = email_reports
        self.exclude_bots = exclude_bots
        self.exclude_params = exclude_params
        self.exclude_ips = exclude_ips
        self.favorite = favorite
        self.check_arguments()

    template_fields = arguments_of(__init__)

    def execute(self, context: Context) -> dict[str, Any]:
        """Send the given settings."""
        from airflow_provider_analytics.api.fields import UPDATE_FIELDS, check_update, website_name, website_of

        with self.connected(context) as hook:
            settings = self._settings(hook, UPDATE_FIELDS)
            if not settings:
                names = ", ".join(ARGUMENTS.get(name, name) for name in UPDATE_FIELDS)
                raise ValueError(f"Nothing to update: give at least one of {names}")
            settings = check_update(**settings)  # before any request is sent
            if _lacks_password(settings):
                self.log.warning(
                    "privacy becomes 'password', and no password was given. If the website has none yet, set "
                    "password_from as well, and check its statistics page."
                )
            website_id = _find_id(hook, self.website_id, self.domain)
            updated = hook.client.update_website(website_id, expected_domain=self.domain, **settings)
            name = website_name(*website_of(updated.record))
            if updated.sent:
                self.log.info("Updated website %s: %s.", name, ", ".join(settings))
            else:
                self.log.info("Website %s is up to date: %s.", name, ", ".join(settings))
            return _result(hook, updated, updated=settings)


class DeleteWebsiteOperator(AnalyticsBaseOperator):
    """Delete a website.

    .. code-block:: python

        DeleteWebsiteOperator(task_id="retire", domain="shop.example.com")

    :param website_id: id of the website. (templated)
    :param domain: instead of ``website_id``. Give both if you know both: a website that has got the id of a deleted one
        is then never deleted. (templated)
    :param ignore_if_missing: succeed if the website does not exist; default True. The account must be readable, because
        with a wrong base URL every website is missing. (templated)
    :param analytics_conn_id: id of a connection of type ``analytics``. (templated)
    :return: a dict with these keys:

        * ``website_id`` (number, string, or null, such as ``7``): the argument.
        * ``domain`` (string or null, such as ``null``): the argument.
        * ``deleted`` (boolean, such as ``true``): true if this run deleted the website.

    :raises AirflowFailException: without a retry, if the domain has several websites, or the website of the id has
        another domain.
    :raises NotFoundError: if there is no website with this id and ``ignore_if_missing`` is False.
    :raises DomainError: if the domain has no website and ``ignore_if_missing`` is False.
    """

    def __init__(
        self,
        *,
        website_id: int | str | None = None,
        domain: str | None = None,
        ignore_if_missing: bool = True,
        analytics_conn_id: str = "analytics_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(analytics_conn_id=analytics_conn_id, **kwargs)
        self.website_id = website_id
        self.domain = domain
        self.ignore_if_missing = ignore_if_missing
        self.check_arguments()

    template_fields = arguments_of(__init__)

    def execute(self, context: Context) -> dict[str, Any]:
        """Delete the website."""
        with self.connected(context) as hook:
            ignore_if_missing = flag("ignore_if_missing", self.ignore_if_missing)
            deleted = self._delete(hook, ignore_if_missing)
            if not deleted:
                # With a wrong base URL every website is "not found", and none would ever be deleted.
                hook.get_account()
                self.log.info("Website %s does not exist, so it was not deleted.", self.website_id or self.domain)
        return {"website_id": self.website_id, "domain": self.domain, "deleted": deleted}

    def _delete(self, hook: AnalyticsHook, ignore_if_missing: bool) -> bool:
        """Delete the website; return whether it existed."""
        from airflow_provider_analytics.api.fields import website_name

        try:
            website_id = _find_id(hook, self.website_id, self.domain)
        except DomainError as error:  # a "not found" response to the list is another error
            if error.website_ids or not ignore_if_missing:
                raise
            return False
        try:
            hook.client.delete_website(website_id, expected_domain=self.domain)
        except NotFoundError:
            if not ignore_if_missing:
                raise
            return False
        self.log.info("Deleted website %s.", website_name(self.domain or "", str(website_id)))
        return True


def _find_id(hook: AnalyticsHook, website_id: int | str | None, domain: str | None) -> int | str:
    """Return the id of the website, given by id, by domain, or by both. The caller compares the domain.

    :raises ValueError: if neither is given.
    :raises DomainError: if the domain has no website, or several.
    """
    from airflow_provider_analytics.api.fields import check_website_id

    if website_id is not None:
        return check_website_id(website_id)
    if domain is None:
        raise invalid_together(website_id=website_id, domain=domain)
    website = hook.find_website(domain)
    if website is None:
        problem = f"No website has the domain {str(domain)!r}. All websites were checked."
        raise DomainError(problem, remedy="Check the spelling of the domain.")
    found: int | str = website["id"]
    return found


def _lines(name: str, value: Any) -> tuple[str, ...]:
    """Return the lines to send for a list, which is read as by the operators that sync lists.

    A comment belongs to the list and is not sent, except for the comment of an entry with the key ``comment``.

    :raises ValueError: if it has no entries and is not ``[]``.
    """
    listed = _parse_list(name, value)
    if not listed.entries and value != []:
        found = "no entries"
        if listed.expired:
            found = "only expired entries"
        raise ValueError(f"{name}={short_repr(value)} has {found}. To clear the list, give []")
    return listed.new_lines(listed.entries)


def _parse_list(name: str, value: Any) -> EntryList:
    """Return the entries of a list for a single website.

    :raises ValueError: if lines cannot be read.
    """
    from airflow_provider_analytics.api.fields import LINE_FIELDS
    from airflow_provider_analytics.reconcile.desired.list_lines import read_list

    return read_list(name, value, LINE_FIELDS[name], is_for_one=True)


def _result(
    hook: AnalyticsHook,
    written: WriteResult,
    *,
    created: bool = False,
    updated: Iterable[str] = (),
    differing: Iterable[str] = (),
) -> dict[str, Any]:
    """Return the result of the operators that write settings."""
    return {
        "website_id": written.record["id"],
        "domain": written.record.get("domain"),
        "created": created,
        "updated": list(updated) if written.sent else [],
        "differing": list(differing),
        "unverified": list(written.unverified),
        "verified": not (written.unverified or written.unsent or differing),
        "unexpected_changes": [f"{name} {how}" for name, how in written.unsent.items()],
        "website": hook.client.for_output(written.record),
    }
