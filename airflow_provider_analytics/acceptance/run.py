# SPDX-License-Identifier: Apache-2.0
"""The acceptance run: it creates one website, changes it field by field, and deletes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from airflow_provider_analytics.acceptance.creation import create
from airflow_provider_analytics.acceptance.disposable import CreatedWebsites, new_domain
from airflow_provider_analytics.acceptance.findings import Findings
from airflow_provider_analytics.acceptance.preparation import prepare
from airflow_provider_analytics.acceptance.reads import check_reads
from airflow_provider_analytics.acceptance.removal import delete, remove
from airflow_provider_analytics.acceptance.state import LeftoverError, RunState
from airflow_provider_analytics.acceptance.statements import Extras
from airflow_provider_analytics.acceptance.transport import MAX_REQUESTS, RequestLimitError
from airflow_provider_analytics.acceptance.updates import Updates
from airflow_provider_analytics.api.domains import check_domain
from airflow_provider_analytics.api.settings import Settings

#: Seconds for one response, and maximum number of retries.
TIMEOUT = 10.0
MAX_RETRIES = 2


class AcceptanceRun:
    """An acceptance run on one service.

    :param settings: settings of the connection.
    :param domain: domain of the website; None: a random one, which every later run recognizes.
    :param created: records a website whose domain was given.
    :param progress: called before each request with its number and the name of the step.
    :raises ValueError: if the domain is invalid.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        domain: str | None = None,
        created: CreatedWebsites | None = None,
        progress: Callable[[int, str], None] | None = None,
    ) -> None:
        self.settings = replace(
            settings,
            timeout=min(settings.timeout, TIMEOUT),
            max_retries=min(settings.max_retries, MAX_RETRIES),
            parallel_requests=1,  # no page is read in vain
        )
        self.domain = new_domain()
        if domain is not None:
            self.domain = check_domain(domain)
        created = created or CreatedWebsites(None)
        self._state = RunState(self.settings, self.domain, created, progress, is_given=domain is not None)
        self._updates = Updates(self._state)
        self.transport = self._state.transport

    @property
    def findings(self) -> Findings:
        """The findings by statement."""
        return self._state.findings

    @property
    def extras(self) -> Extras:
        """Extras to set."""
        return self._state.findings.extras

    @property
    def leftovers(self) -> int:
        """Number of leftovers of earlier runs that were removed."""
        return self._state.leftovers

    @property
    def not_removed(self) -> LeftoverError | None:
        """Why the website could not be removed; None if it was."""
        return self._state.not_removed

    def run(self) -> None:
        """Do all steps, and remove the website.

        If the website cannot be removed, :attr:`not_removed` says why.

        :raises AnalyticsError: if the run cannot start, or is interrupted by an error of the connection.
        :raises LeftoverError: if a website of an earlier run cannot be removed.
        :raises ValueError: if the given domain has a website, or if the service rejects the domain.
        """
        try:
            prepare(self._state)
            self._run_steps()
        except RequestLimitError as error:
            if not self._state.website_id:
                raise
            self._updates.conclude()
            self.transport.limit = MAX_REQUESTS
            delete(self._state)
            self.findings.add_missing(error.problem)
        finally:
            remove(self._state)
        self.findings.add_missing("Not tested.")

    def _run_steps(self) -> None:
        create(self._state)
        self._updates.run_first_round()
        check_reads(self._state, is_favorite=self._updates.made_favorite)
        self._updates.run_second_round()
        delete(self._state)
