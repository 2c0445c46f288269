# SPDX-License-Identifier: Apache-2.0
"""The acceptance run: each operation of the interface on one disposable website of a real server.

The command ``verify`` starts it. ``statements`` has the statements of the interface, and the result of each.
``transport`` limits the requests, and sends writes only for disposable websites. ``disposable`` recognizes, records and
removes these. ``run`` sends the steps and derives the findings, and ``report`` renders them. The package imports
``api``, but not Airflow.
"""
