# SPDX-License-Identifier: Apache-2.0
"""Task groups in which a person approves a plan before it is applied; Airflow 3.1 or newer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import (
    AirflowOptionalProviderFeatureException,
    BaseOperator,
    Param,
    TaskGroup,
)

from airflow_provider_analytics.exceptions import GuardError
from airflow_provider_analytics.operators.base import FailWithoutRetry, how_to_override, skipped
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator, _SyncExclusionsOperator
from airflow_provider_analytics.operators.websites_as_code import ApplyWebsitesOperator, PlanWebsitesOperator

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context


def websites_as_code(
    group_id: str = "websites_as_code", *, approval: Mapping[str, Any] | None = None, **arguments: Any
) -> TaskGroup:
    """Plan the changes that a websites file requires, wait for an approval, and apply exactly that plan.

    The tasks are ``plan``, ``check`` (skips the rest if nothing changes, fails if a guard blocks the plan),
    ``approve``, and ``apply``.

    Guide: https://airflow-provider-analytics.github.io/airflow-provider-analytics/websites_as_code/#plan-approve-apply

    .. code-block:: python

        websites_as_code(config_path="/opt/airflow/dags/websites.yaml", state_path="s3://analytics-state")

    :param group_id: id of the task group.
    :param approval: arguments of Airflow's ``ApprovalOperator``, such as ``assigned_users`` and ``notifiers``.
    :param arguments: arguments of :class:`PlanWebsitesOperator`; ``state_path`` lets a retry finish a plan that was
        applied in part.
    :raises AirflowOptionalProviderFeatureException: if Airflow has no ``ApprovalOperator``.
    """
    return _approved(
        group_id,
        f"websites_as_code({group_id!r}, ...)",
        "Apply this plan to the websites?",
        lambda: PlanWebsitesOperator(task_id="plan", **arguments),
        lambda digest: ApplyWebsitesOperator(task_id="apply", approved_digest=digest, retries=2, **arguments),
        approval or {},
    )


def exclusion_list(
    group_id: str = "exclusion_list",
    *,
    operator: type[_SyncExclusionsOperator] = SyncExcludedIpsOperator,
    approval: Mapping[str, Any] | None = None,
    **arguments: Any,
) -> TaskGroup:
    """Plan the changes of an exclusion list, wait for an approval, and apply exactly that plan.

    The tasks are the same as in :func:`websites_as_code`.

    .. code-block:: python

        exclusion_list(exclude_ips="{{ var.value.exclude_ips }}", state_path="s3://analytics-state", list_name="office")

    :param group_id: id of the task group.
    :param operator: operator class of the list.
    :param approval: arguments of Airflow's ``ApprovalOperator``, such as ``assigned_users`` and ``notifiers``.
    :param arguments: arguments of the operator; ``list_name`` defaults to ``group_id``.
    :raises AirflowOptionalProviderFeatureException: if Airflow has no ``ApprovalOperator``.
    """
    arguments = {"list_name": group_id, **arguments}
    return _approved(
        group_id,
        f"exclusion_list({group_id!r}, ...)",
        f"Apply this plan to {operator.field} of the websites?",
        lambda: operator(task_id="plan", dry_run=True, **arguments),
        lambda digest: operator(task_id="apply", approved_digest=digest, retries=2, **arguments),
        approval or {},
    )


class _ApprovedGroup(TaskGroup):
    """A group whose tasks get the arguments of one call.

    :param override_at: the call, for the error of a guard.
    """

    override_at = ""


def _approved(
    group_id: str,
    call: str,
    subject: str,
    make_plan: Callable[[], BaseOperator],
    make_apply: Callable[[Any], BaseOperator],
    approval: Mapping[str, Any],
) -> TaskGroup:
    group = _ApprovedGroup(group_id)
    group.override_at = call
    with group:
        plan = make_plan()
        check = _CheckPlanOperator(task_id="check", planned=plan.output)
        given = {
            "subject": subject,
            # In a mapped group, each instance has its own plan.
            "body": f"{{{{ ti.xcom_pull(task_ids='{plan.task_id}', map_indexes=ti.map_index)['markdown'] }}}}",
            "response_timeout": timedelta(days=1),
            **approval,
        }
        given["pre_execute"] = _show_digest(plan.task_id, then=given.get("pre_execute"))
        approve = _approval_operator()(task_id="approve", **given)
        # A task that was only marked as success has no output: then nothing is applied.
        check >> approve >> make_apply(approve.output)
    return group


class _CheckPlanOperator(BaseOperator):
    """Skip the approval of a plan without changes, and fail for one that a guard blocks."""

    template_fields = ("planned",)
    #: The label of the task in Airflow's interface, in place of the name of this class.
    custom_operator_name = "CheckPlan"

    def __init__(self, *, planned: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.planned = planned

    def execute(self, context: Context) -> None:
        """Check the plan."""
        with FailWithoutRetry():
            if self.planned["blocked_by"]:
                guards = [*self.planned["override_guards"], *self.planned["blocked_by"]]
                remedy = f"No changes were sent.\n{how_to_override(guards, context)}"
                raise GuardError(self.planned["guard_message"], remedy)
        if not self.planned["changes"]:
            raise skipped("Nothing to change.")


def _show_digest(task_id: str, then: Callable[[Context], None] | None) -> Callable[[Context], None]:
    """Return a callback that adds the digest of a plan to the form: the answer then says which plan was approved.

    :param then: the callback of the user, which is called afterwards.
    """

    def show(context: Context) -> None:
        ti = context["ti"]
        digest = ti.xcom_pull(task_ids=task_id, map_indexes=ti.map_index)["digest"]
        context["task"].params["approved_digest"] = Param(
            digest,
            type="string",
            title="Digest of this plan",
            description="Only the plan with this digest is applied. Leave it unchanged.",
        )
        if then is not None:
            then(context)

    return show


def _approval_operator() -> Any:
    """Return Airflow's ``ApprovalOperator``, which here ends as skipped, with the reason, if the plan is rejected.

    With the options for a rejection, ``fail_on_reject`` and ``ignore_downstream_trigger_rules``, it ends as theirs.
    """
    try:
        from airflow.providers.standard.operators.hitl import ApprovalOperator
    except ImportError as error:
        raise AirflowOptionalProviderFeatureException(
            "An approval needs Airflow 3.1 or newer, and apache-airflow-providers-standard."
        ) from error

    class Approval(ApprovalOperator):
        def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
            is_skipped = not (self.fail_on_reject or self.ignore_downstream_trigger_rules)
            if event.get("chosen_options") == [self.REJECT] and is_skipped:
                if event.get("timedout"):
                    raise skipped("Rejected, because nobody responded in time. No changes were sent.")
                user = (event.get("responded_by_user") or {}).get("name") or "an unknown user"
                raise skipped(f"Rejected by {user}. No changes were sent.")
            return super().execute_complete(context, event)

    return Approval
