# SPDX-License-Identifier: Apache-2.0
"""The acceptance run: each operation of the interface on one disposable website of a real server.

The command ``verify`` starts it. ``statements`` has the statements of the interface. ``transport`` limits the requests,
and sends writes only for disposable websites, which ``disposable`` recognizes and records. ``run`` does the steps in
their order: ``preparation``, ``creation``, ``updates``, ``reads``, and ``removal``. All steps share a ``state``. They
add ``findings``, which ``acceptance_report`` renders. The package imports ``api``, but not Airflow.
"""
