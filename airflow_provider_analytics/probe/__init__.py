"""The probe: what a real server does where the interface says nothing, found out by reads.

``unknowns`` is the table of the open questions, ``seen`` sends the requests, ``findings`` answers the questions as pure
functions, ``report`` renders the answers. Imports ``api``; no Airflow.
"""
