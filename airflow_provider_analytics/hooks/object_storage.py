# SPDX-License-Identifier: Apache-2.0
"""Convert a URL to a path on its storage, with the Airflow connection that the URL names."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

from airflow.providers.common.compat.sdk import AirflowNotFoundException, ObjectStoragePath

from airflow_provider_analytics.api.checks import invalid
from airflow_provider_analytics.exceptions import MissingPackageError
from airflow_provider_analytics.storage import StoragePath

_PLACES = "a URL such as s3://bucket/path or file:///path, or /path"

#: Scheme to the package that provides its file system, from the documentation of Airflow's providers.
_PROVIDERS = {
    "s3": "apache-airflow-providers-amazon[s3fs]",
    "gs": "apache-airflow-providers-google",
    "abfs": "apache-airflow-providers-microsoft-azure",
    "abfss": "apache-airflow-providers-microsoft-azure",
    "adl": "apache-airflow-providers-microsoft-azure",
}


def _has_file_system(scheme: str) -> bool:
    """Return whether Airflow or an installed provider registers a file system for a scheme."""
    try:
        module = import_module("airflow.sdk.io.fs")
    except ImportError:  # Airflow 2
        module = import_module("airflow.io")
    return bool(module.has_fs(scheme))


def storage_path(url: str, argument: str) -> StoragePath:
    """Return the storage path of a URL or an absolute path.

    The connection id in ``s3://my_conn@bucket/path`` is used, but the URL of the path does not contain it: other
    readers of that URL cannot use it.

    :param argument: name of the argument, for the message.
    :raises ValueError: for a relative path, which would depend on the working directory of the worker, and for an
        unknown scheme.
    :raises MissingPackageError: if no installed provider registers the scheme; the message names the package that does.
    """
    if not isinstance(url, str):
        raise invalid(argument, url, _PLACES)
    scheme, separator, rest = url.partition("://")
    host, slash, inside = rest.partition("/")
    conn_id, _, host = host.rpartition("@")  # Airflow treats everything before an "@" as a connection id
    if (scheme == "file" and host) or not (separator or url.startswith("/")):
        raise invalid(argument, url, _PLACES)
    try:
        path = StoragePath.of(ObjectStoragePath(url))
    except AirflowNotFoundException as error:
        if not conn_id:
            raise
        raise ValueError(
            f"{argument}={url!r} cannot be used: Airflow reads the text before the @ as a connection id but has no "
            f"connection {conn_id!r}. Write {scheme}://CONN_ID@BUCKET/PATH, or omit the part before the @. For Azure, "
            "the bucket is the container: the account is part of the connection"
        ) from error
    except ValueError:
        if _has_file_system(scheme):
            raise
        problem = f"{argument}={url!r} cannot be used: Airflow has no file system for {scheme}:// here"
        package = _PROVIDERS.get(scheme)
        if package:
            raise MissingPackageError(f"{problem}; install {package} on the workers") from None
        raise ValueError(f"{problem}. Allowed: file, {', '.join(_PROVIDERS)}") from None
    if not separator:
        return path
    return replace(path, url=f"{scheme}://{host}{slash}{inside}")
