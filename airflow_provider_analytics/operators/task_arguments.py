"""The arguments that every Airflow task takes, so that editors complete them and mypy reports misspelt ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Required, TypedDict


class TaskArguments(TypedDict, total=False):
    """Arguments of ``BaseOperator`` in all supported Airflow versions; a test compares them with its signature.

    Each Airflow version rejects arguments that it does not know.
    """

    task_id: Required[str]
    owner: str
    email: str | Sequence[str] | None
    email_on_retry: bool
    email_on_failure: bool
    retries: int | None
    retry_delay: timedelta | float
    retry_exponential_backoff: bool | float
    max_retry_delay: timedelta | float | None
    retry_policy: Any
    start_date: datetime | None
    end_date: datetime | None
    depends_on_past: bool
    ignore_first_depends_on_past: bool
    wait_for_past_depends_before_skipping: bool
    wait_for_downstream: bool
    dag: Any
    params: MutableMapping[str, Any] | None
    default_args: dict[str, Any] | None
    priority_weight: int
    weight_rule: Any
    queue: str
    pool: str | None
    pool_slots: int
    sla: timedelta | None
    execution_timeout: timedelta | None
    on_execute_callback: Callable[..., Any] | list[Callable[..., Any]] | None
    on_failure_callback: Callable[..., Any] | list[Callable[..., Any]] | None
    on_success_callback: Callable[..., Any] | list[Callable[..., Any]] | None
    on_retry_callback: Callable[..., Any] | list[Callable[..., Any]] | None
    on_skipped_callback: Callable[..., Any] | list[Callable[..., Any]] | None
    pre_execute: Callable[..., Any] | None
    post_execute: Callable[..., Any] | None
    trigger_rule: str
    resources: dict[str, Any] | None
    run_as_user: str | None
    task_concurrency: int | None
    map_index_template: str | None
    max_active_tis_per_dag: int | None
    max_active_tis_per_dagrun: int | None
    executor: str | None
    executor_config: dict[str, Any] | None
    do_xcom_push: bool
    multiple_outputs: bool
    inlets: Any
    outlets: Any
    task_group: Any
    doc: str | None
    doc_md: str | None
    doc_json: str | None
    doc_yaml: str | None
    doc_rst: str | None
    task_display_name: str | None
    logger_name: str | None
    allow_nested_operators: bool
    render_template_as_native_obj: bool | None


class AnalyticsArguments(TaskArguments, total=False):
    """Arguments of all operators that call the service."""

    analytics_conn_id: str


class ReconcileArguments(AnalyticsArguments, total=False):
    """Arguments of all operators that plan changes."""

    state_path: str | None
    list_name: str | None
    override_guards: Iterable[str] | str
    max_loss_fraction: float


class SyncArguments(ReconcileArguments, total=False):
    """Arguments of both operators that sync a list."""

    websites: Iterable[str | int] | Mapping[str, Any] | str | int | None
    except_websites: Iterable[str | int] | str | int
    per_website: Mapping[str, Iterable[str] | str] | str | None
    mode: str | None
    unmanage_websites: Iterable[str | int] | str | int
    dry_run: bool
    approved_digest: str | Mapping[str, Any] | None


class FileArguments(ReconcileArguments, total=False):
    """Arguments of the operators for websites as code."""

    config_path: str | None
    config: Mapping[str, Any] | Iterable[Mapping[str, Any]] | str | None
    prune: bool
    create_only: bool
