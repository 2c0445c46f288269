-- Not run: dbt needs a warehouse. A model with the newest day.
SELECT *
FROM {{ source('analytics', 'websites') }}
WHERE snapshot_date = (SELECT max(snapshot_date) FROM {{ source('analytics', 'websites') }})
