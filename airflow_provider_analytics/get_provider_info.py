# SPDX-License-Identifier: Apache-2.0
"""Provider metadata. Every Airflow process imports this module, so it imports only the version."""

from __future__ import annotations

from typing import Any

from airflow_provider_analytics import SITE, __version__


def _extra(label: str, description: str, kind: str, **limits: Any) -> dict[str, Any]:
    """Return a field of the form of a connection."""
    return {"label": label, "description": description, "schema": {"type": [kind, "null"], **limits}}


#: Connection type and its form; also used by :mod:`airflow_provider_analytics.hooks.analytics`.
CONNECTION_TYPE: dict[str, Any] = {
    "connection-type": "analytics",
    "hook-class-name": "airflow_provider_analytics.hooks.analytics.AnalyticsHook",
    "hook-name": "Website Analytics",
    "ui-field-behaviour": {
        # The extra is not hidden: without it, the test button in the form of Airflow 2.11 does nothing.
        "hidden-fields": ["login", "schema"],
        # Airflow 3.3.1 and 3.3.2 test a saved connection only if it has a port.
        "relabeling": {"host": "Base URL", "password": "API key", "port": "Port"},
        "placeholders": {
            "host": "https://stats.example.com",
            "password": "API key of the account",
            "port": "443 (Airflow 3.3.1 and 3.3.2 need it for the Test button)",
        },
    },
    "conn-fields": {
        "timeout": _extra(
            "Timeout (s)",
            "Seconds to wait for a connection, and for each part of a response. Default: 30.",
            "number",
            exclusiveMinimum=0,
            maximum=600,
        ),
        "max_retries": _extra(
            "Retries", "Retries of a request that is safe to repeat. Default: 3.", "integer", minimum=0, maximum=10
        ),
        "requests_per_minute": _extra(
            "Requests per minute",
            "Maximum number of requests in any 60 s, at least 2. Default: no limit.",
            "integer",
            minimum=2,
            maximum=100000,
        ),
        "verify": _extra(
            "Verify TLS", "true, false, or the path of a CA bundle on the worker. Default: true.", "string"
        ),
        "client_cert": _extra(
            "Client certificate",
            "Path of a PEM file with certificate and key, or two paths separated by a comma. Default: none.",
            "string",
        ),
        "proxies": _extra(
            "Proxies",
            'Proxy URL by scheme: {"https": "http://proxy:3128"}. Default: the proxies of the environment.',
            "object",
        ),
        "headers": _extra(
            "Headers",
            "Extra HTTP headers for a reverse proxy, as JSON. Anyone who can edit the connection can read them. "
            "Default: none.",
            "object",
        ),
        "parallel_requests": _extra(
            "Parallel requests", "Requests at the same time, 1 to 16. Default: 8.", "integer", minimum=1, maximum=16
        ),
        "page_parameter": _extra(
            "Page parameter",
            "Query parameter that selects a page. Default: taken from the service's links, or page.",
            "string",
        ),
        "update_method": _extra(
            "Update method",
            "HTTP method of an update: PATCH, or PUT if a proxy blocks PATCH. Default: PATCH.",
            "string",
            enum=["PATCH", "PUT"],
        ),
        "allow_insecure_http": _extra(
            "Allow insecure http",
            "Allow http for hosts other than this machine. The API key is then sent in clear text.",
            "boolean",
            default=False,
        ),
    },
}

#: Airflow validates the addresses of assets with the handler. OpenLineage drops assets without a converter.
ASSET_URIS: dict[str, Any] = {
    "schemes": ["analytics"],
    "handler": "airflow_provider_analytics.assets.sanitize_uri",
    "to_openlineage_converter": "airflow_provider_analytics.assets.convert_asset_to_openlineage",
}


def get_provider_info() -> dict[str, Any]:
    """Return the provider metadata, for the entry point ``apache_airflow_provider``."""
    integration = "Website Analytics"

    def modules(package: str, *names: str) -> list[dict[str, Any]]:
        return [
            {
                "integration-name": integration,
                "python-modules": [f"airflow_provider_analytics.{package}.{name}" for name in names],
            }
        ]

    return {
        "package-name": "airflow-provider-analytics",
        "name": integration,
        "description": "Websites and account of a self-hosted web-analytics service: hook, operators, snapshots.",
        "versions": [__version__],
        "integrations": [{"integration-name": integration, "external-doc-url": SITE, "tags": ["service"]}],
        "hooks": modules("hooks", "analytics"),
        "operators": modules(
            "operators", "account", "task_groups", "exclusions", "snapshots", "websites", "websites_as_code"
        ),
        "extra-links": [  # Airflow 2 shows only the links of these classes
            f"airflow_provider_analytics.operators.links.{name}"
            for name in ("PlanLink", "SnapshotFolderLink", "SnapshotReportLink", "WebsiteLink")
        ],
        "connection-types": [CONNECTION_TYPE],
        "asset-uris": [ASSET_URIS],
        "dataset-uris": [ASSET_URIS],  # their name in Airflow 2
        "cli": ["airflow_provider_analytics.commands.provider.get_cli_commands"],  # read by Airflow 3.2 and later
    }
