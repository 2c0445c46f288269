-- Not run: BigQuery has no emulator that loads files.
-- Use format="parquet" with base_path="gs://my-bucket/analytics".

-- Create the table once: create_tables.sql.

-- Replace a day: list the files of the snapshot in uris. In a DAG, use BigQueryInsertJobOperator, and write
-- uris = {{ ti.xcom_pull('snapshot', map_indexes=ti.map_index)['files'] | tojson }}. For a day without websites, run
-- this instead:
-- DELETE FROM analytics.websites WHERE snapshot_date = '2026-11-20'
LOAD DATA OVERWRITE analytics.websites PARTITIONS (snapshot_date = DATE '2026-11-20')
FROM FILES (
    format = 'PARQUET',
    uris = ['gs://my-bucket/analytics/websites/dt=2026-11-20/websites-20261120T000004Z-5f0c1d2e-9b1f.parquet']
);
