# SPDX-License-Identifier: Apache-2.0
"""The probe: it finds out with reads only how the tasks work with a real server.

``reading`` reads the service with the client of the tasks, within limits. ``checks`` derives the findings. The package
imports ``api``, but not Airflow.
"""
