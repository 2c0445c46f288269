-- Not run: Snowflake has no emulator.
-- Use format="parquet" on storage that a Snowflake storage integration can read.

-- Create the table once (create_tables.sql), and a stage.
CREATE STAGE IF NOT EXISTS analytics_stage URL = 's3://my-bucket/analytics/' STORAGE_INTEGRATION = my_integration;

-- Replace a day. FORCE = TRUE is necessary, because Snowflake otherwise skips a file that it has loaded before. In a DAG,
-- use SQLExecuteQueryOperator. record is text: query it with PARSE_JSON(record).
BEGIN;
DELETE FROM websites WHERE snapshot_date = '2026-11-20';
COPY INTO websites FROM @analytics_stage
    FILES = ('websites/dt=2026-11-20/websites-20261120T000004Z-5f0c1d2e-9b1f.parquet')
    FILE_FORMAT = (TYPE = PARQUET USE_LOGICAL_TYPE = TRUE)
    MATCH_BY_COLUMN_NAME = CASE_INSENSITIVE
    FORCE = TRUE;
COMMIT;
