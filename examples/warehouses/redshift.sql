-- Not run: Redshift has no emulator.
-- Use format="jsonl", compression="gzip", because Redshift matches the columns of Parquet files by position, but the keys
-- of JSON by name.

-- Create the table once: create_tables.sql.

-- Replace a day, with one COPY for each file of the snapshot. Redshift rejects a record of more than 65,535 bytes. If you
-- have such records, add TRUNCATECOLUMNS, and do not parse record.
BEGIN;
DELETE FROM websites WHERE snapshot_date = '2026-11-20';
COPY websites FROM 's3://my-bucket/analytics/websites/dt=2026-11-20/websites-20261120T000004Z-5f0c1d2e-9b1f.jsonl.gz'
    IAM_ROLE DEFAULT FORMAT AS JSON 'auto' GZIP TIMEFORMAT 'auto' DATEFORMAT 'auto';
COMMIT;
