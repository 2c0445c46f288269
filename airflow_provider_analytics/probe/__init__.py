# SPDX-License-Identifier: Apache-2.0
"""The probe: what the tasks will do on a real server, found out with reads only.

``reading`` reads the service with the client of the tasks, within limits. ``checks`` derives the findings. ``report``
renders them. The package imports ``api``, but not Airflow.
"""
