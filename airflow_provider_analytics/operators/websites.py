"""One operator for each operation on websites (interface.md, part 4)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowFailException, mask_secret
from jinja2 import TemplateSyntaxError

from airflow_provider_analytics.api import fields
from airflow_provider_analytics.exceptions import NotFoundError
from airflow_provider_analytics.operators.base import AnalyticsOperator, without_secrets

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_analytics.hooks.analytics import AnalyticsHook


class ListWebsitesOperator(AnalyticsOperator):
    """Return the complete list of websites through XCom, if it is short.

    For more than ``max_records`` websites use ``SnapshotWebsitesOperator``, which writes them to storage.

    :param search: search query; what it matches is up to the service. (templated)
    :param search_by: field that is searched: ``domain``. (templated)
    :param favorite: only favourites, or only the others. (templated)
    :param sort_by: ``id`` or ``domain``; default ``id``. (templated)
    :param sort: ``desc`` or ``asc``; default ``desc``. (templated)
    :param per_page: websites per request: 10, 25, 50 or 100; default 100. (templated)
    :param max_records: most websites that are returned; a longer list fails the task. Default 1,000. (templated)
    :return: list of website records as the service sends them, without passwords.
    """

    template_fields: Sequence[str] = (
        *AnalyticsOperator.template_fields,
        "search",
        "search_by",
        "favorite",
        "sort_by",
        "sort",
        "per_page",
        "max_records",
    )

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
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.search = search
        self.search_by = search_by
        self.favorite = favorite
        self.sort_by = sort_by
        self.sort = sort
        self.per_page = per_page
        self.max_records = max_records

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Read the list, and refuse to push a long one."""
        filters = ("search", "search_by", "favorite", "sort_by", "sort", "per_page")
        with self.connected() as hook:
            limit = _positive("max_records", self.max_records)
            websites = hook.list_websites(**{name: getattr(self, name) for name in filters})
            if len(websites) > limit:
                raise AirflowFailException(
                    f"The list holds {len(websites)} websites, more than max_records={limit}: too many for XCom. "
                    "Use SnapshotWebsitesOperator, which writes the list to storage and returns its path."
                )
            self.log.info("Read %d websites.", len(websites))
            return [without_secrets(website, hook) for website in websites]


def _positive(name: str, value: object) -> int:
    """Return the whole number above 0 that is meant; a template renders to text."""
    text = str(value).strip() if isinstance(value, (int, str)) and not isinstance(value, bool) else ""
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise ValueError(f"{name}={value!r} is not allowed; allowed: a whole number above 0")
    return int(text)


class _OneWebsiteOperator(AnalyticsOperator):
    """Base of the operators that take a website by its id or by its domain.

    :param website_id: id of the website. (templated)
    :param domain: domain of the website, in place of its id; matched exactly, but for letter case. (templated)
    """

    template_fields: Sequence[str] = (*AnalyticsOperator.template_fields, "website_id", "domain")

    def __init__(self, *, website_id: int | str | None = None, domain: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.website_id = website_id
        self.domain = domain

    def _find_id(self, hook: AnalyticsHook) -> int | str:
        """Return the id of the website; :class:`NotFoundError` where no website has the domain."""
        if (self.website_id is None) == (self.domain is None):
            raise ValueError(
                f"website_id={self.website_id!r} and domain={self.domain!r} are not allowed together; "
                "allowed: exactly one of the two"
            )
        if self.website_id is not None:
            return fields.check_website_id(self.website_id)
        website = hook.find_website(str(self.domain))
        if website is None:
            raise NotFoundError(
                404, "GET", "/api/v1/websites", f"no website of the complete list has the domain {self.domain!r}."
            )
        website_id: int | str = website["id"]
        return website_id


class GetWebsiteOperator(_OneWebsiteOperator):
    """Return one website (interface.md, part 4, "Show").

    :param website_id: id of the website. (templated)
    :param domain: domain of the website, in place of its id; matched exactly, but for letter case. (templated)
    :return: the website record as the service sends it, without a password.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """Ask for the website."""
        with self.connected() as hook:
            return without_secrets(hook.get_website(self._find_id(hook)), hook)


class _SettingsOperator(AnalyticsOperator):
    """Base of the operators that take the settings of a website.

    They are named as in the interface but for one: ``email`` is an argument of every Airflow operator already.
    """

    # The password is missing here on purpose: Airflow stores and shows template fields as they were rendered.
    template_fields: Sequence[str] = (
        *AnalyticsOperator.template_fields,
        "privacy",
        "email_reports",
        "exclude_bots",
        "exclude_params",
        "exclude_ips",
    )

    def __init__(
        self,
        *,
        privacy: fields.Privacy | int | str | None = None,
        password: str | None = None,
        email_reports: bool | None = None,
        exclude_bots: bool | None = None,
        exclude_params: Sequence[str] | str | None = None,
        exclude_ips: Sequence[str] | str | None = None,
        **kwargs: Any,
    ) -> None:
        if isinstance(kwargs.get("email"), (bool, int)):
            raise ValueError(  # here, because Airflow would take it without a word
                f"email={kwargs['email']!r} is not allowed: every Airflow operator takes the address for its alerts "
                "under this name. The website's field email is set by email_reports."
            )
        super().__init__(**kwargs)
        self.privacy = privacy
        self.password = password
        self.email_reports = email_reports
        self.exclude_bots = exclude_bots
        self.exclude_params = exclude_params
        self.exclude_ips = exclude_ips

    def _settings(self, context: Context) -> dict[str, Any]:
        """Return the settings that are given; a password is rendered here, and masked before anything uses it."""
        given = ("privacy", "exclude_bots", "exclude_params", "exclude_ips")
        settings = {name: getattr(self, name) for name in given} | {"email": self.email_reports}
        for name in fields.LINE_FIELDS:
            _check_rendered(name, settings[name])
        if self.password is not None:
            settings["password"] = self._rendered_password(context)
        return {name: value for name, value in settings.items() if value is not None}

    def _rendered_password(self, context: Context) -> str:
        try:
            password = self.render_template(self.password, context)
        except TemplateSyntaxError:
            # Its text holds the whole template, which may be a password that merely looks like one.
            raise ValueError("password (value not shown) cannot be read as a template") from None
        if not isinstance(password, str) or password == "None":  # noqa: S105 - what Jinja makes of no value
            raise ValueError("password was rendered to no text; does what its template names have a value?")
        mask_secret(password)
        return password


def _check_rendered(name: str, value: object) -> None:
    """Refuse the texts that Jinja makes of no value and of a list: they would become an entry."""
    if isinstance(value, str) and re.fullmatch(r"None|\[.*\]", value.strip(), re.DOTALL):
        raise ValueError(
            f"{name}={value!r} is not allowed; allowed: a list, or text with an entry per line. A template that gives "
            "a list needs render_template_as_native_obj=True on the DAG, or the output of the task itself."
        )


class CreateWebsiteOperator(_SettingsOperator):
    """Create a website, unless there is one of this domain (interface.md, part 4, "Store").

    It looks before it creates, in the whole list, so that a retry of the task never makes a second website.

    :param domain: domain of the website, without scheme, port or path. (templated)
    :param privacy: protection of the statistics page: 0 public, 1 private, 2 password, or the name. (templated)
    :param password: for the statistics page; counts only with privacy 2. May be a template, such as
        ``{{ conn.statistics_page.password }}``; what it renders to is masked and never shown or stored.
    :param email_reports: whether periodic reports are sent, the field ``email`` of the interface. (templated)
    :param exclude_bots: whether common bots are excluded. (templated)
    :param exclude_params: query parameters to exclude: a list, or text with an entry per line. (templated)
    :param exclude_ips: IP addresses to exclude: a list, or text with an entry per line. (templated)
    :param if_exists: what to do where there is such a website: ``skip`` (default) leaves it as it is and logs which
        settings differ, ``update`` gives it the settings that differ, ``fail`` fails the task without retry.
        (templated)
    :return: the website record as the service sends it, without a password.
    """

    template_fields: Sequence[str] = (*_SettingsOperator.template_fields, "domain", "if_exists")

    def __init__(self, *, domain: str, if_exists: str = "skip", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.domain = domain
        self.if_exists = if_exists

    def execute(self, context: Context) -> dict[str, Any]:
        """Look the domain up, and create the website where it is missing."""
        with self.connected() as hook:
            settings = self._settings(context)
            self._check(settings)
            existing = hook.find_website(self.domain)
            if existing is not None:
                return without_secrets(self._treat(hook, existing["id"], settings), hook)
            created = hook.create_website(self.domain, **settings)
            self.log.info("Created website %s with id %s.", self.domain, created["id"])
            return without_secrets(created, hook)

    def _check(self, settings: dict[str, Any]) -> None:
        if self.if_exists not in ("skip", "update", "fail"):
            raise ValueError(f"if_exists={self.if_exists!r} is not allowed; allowed: skip, update, fail")
        fields.create_form(self.domain, **settings)

    def _treat(self, hook: AnalyticsHook, website_id: int | str, settings: dict[str, Any]) -> dict[str, Any]:
        """Return the website that was there already, after doing what ``if_exists`` says."""
        if self.if_exists == "fail":
            raise AirflowFailException(f"The website {self.domain} exists already, with id {website_id}.")
        # Shown again: a row of the list may hold fewer fields.
        existing = hook.get_website(website_id)
        differing = fields.differing_fields(existing, settings)
        listed = ", ".join(differing) or "none"
        if self.if_exists == "skip" or not differing:
            self.log.info(
                "The website %s exists already, with id %s, and was left as it is. Settings that differ or are not "
                "shown: %s.",
                self.domain,
                website_id,
                listed,
            )
            return existing
        self.log.info("The website %s exists already, with id %s; updating: %s.", self.domain, website_id, listed)
        return hook.update_website(website_id, **{name: settings[name] for name in differing})


class UpdateWebsiteOperator(_SettingsOperator, _OneWebsiteOperator):
    """Change settings of a website (interface.md, part 4, "Update"); what is not given stays as it is.

    :param website_id: id of the website. (templated)
    :param domain: domain of the website, in place of its id; matched exactly, but for letter case. (templated)
    :param privacy: protection of the statistics page: 0 public, 1 private, 2 password, or the name. (templated)
    :param password: for the statistics page; counts only with privacy 2. May be a template, such as
        ``{{ conn.statistics_page.password }}``; what it renders to is masked and never shown or stored.
    :param email_reports: whether periodic reports are sent, the field ``email`` of the interface. (templated)
    :param exclude_bots: whether common bots are excluded. (templated)
    :param exclude_params: query parameters to exclude: a list, or text with an entry per line; ``[]`` or ``""``
        clears the list. (templated)
    :param exclude_ips: IP addresses to exclude, given like ``exclude_params``. (templated)
    :param favorite: whether the website is marked as favourite. (templated)
    :return: the website record as the service sends it, without a password.
    """

    template_fields: Sequence[str] = (
        *_OneWebsiteOperator.template_fields,
        *_SettingsOperator.template_fields[1:],
        "favorite",
    )

    def __init__(self, *, favorite: bool | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.favorite = favorite

    def execute(self, context: Context) -> dict[str, Any]:
        """Send the settings that are given."""
        with self.connected() as hook:
            settings = {**self._settings(context), "favorite": self.favorite}
            fields.update_form(boolean_texts=("false", "true"), **settings)  # checked before the look-up
            updated = hook.update_website(self._find_id(hook), **settings)
            self.log.info("Updated website %s.", updated["id"])
            return without_secrets(updated, hook)


class DeleteWebsiteOperator(_OneWebsiteOperator):
    """Delete a website (interface.md, part 4).

    :param website_id: id of the website. (templated)
    :param domain: domain of the website, in place of its id; matched exactly, but for letter case. (templated)
    :param ignore_missing: whether a website that is not there counts as done, so that the task may run again.
        Default True. That it is not there is believed only of a service that shows the account. (templated)
    :return: ``{"website_id": ..., "domain": ..., "deleted": ...}``: what was asked for, and whether this run
        deleted it.
    """

    template_fields: Sequence[str] = (*_OneWebsiteOperator.template_fields, "ignore_missing")

    def __init__(self, *, ignore_missing: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.ignore_missing = ignore_missing

    def execute(self, context: Context) -> dict[str, Any]:
        """Delete the website."""
        with self.connected() as hook:
            ignore_missing = fields.parse_flag("ignore_missing", self.ignore_missing)
            try:
                hook.delete_website(self._find_id(hook))
                deleted = True
            except NotFoundError:
                if not ignore_missing:
                    raise
                # With a wrong base URL everything is "not found", and nothing would ever be deleted.
                hook.get_account()
                deleted = False
        self.log.info("Website %s: %s.", self.website_id or self.domain, "deleted" if deleted else "not there")
        return {"website_id": self.website_id, "domain": self.domain, "deleted": deleted}
