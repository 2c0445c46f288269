"""The probe: detects undocumented behavior of a real server with reads only.

``unknowns`` is the table of open questions. ``seen`` sends the requests. ``findings`` derives the results with pure
functions. ``report`` renders them. The package imports ``api``, but not Airflow.
"""
