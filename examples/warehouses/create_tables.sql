-- Not run: the table of each warehouse. Written by `make generate`.

-- BigQuery
CREATE TABLE IF NOT EXISTS analytics.websites (
    id STRING NOT NULL,
    domain STRING,
    privacy INT64,
    email INT64,
    exclude_bots INT64,
    exclude_params STRING,
    exclude_ips STRING,
    favorite BOOL,
    record STRING,
    record_hash STRING,
    snapshot_date DATE NOT NULL,
    observed_at TIMESTAMP
) PARTITION BY snapshot_date;

-- Snowflake
CREATE TABLE IF NOT EXISTS websites (
    id VARCHAR NOT NULL,
    domain VARCHAR,
    privacy NUMBER,
    email NUMBER,
    exclude_bots NUMBER,
    exclude_params VARCHAR,
    exclude_ips VARCHAR,
    favorite BOOLEAN,
    record VARCHAR,
    record_hash VARCHAR,
    snapshot_date DATE NOT NULL,
    observed_at TIMESTAMP_TZ,
    PRIMARY KEY (snapshot_date, id)
);

-- Redshift
CREATE TABLE IF NOT EXISTS websites (
    id VARCHAR(255) NOT NULL,
    domain VARCHAR(255),
    privacy BIGINT,
    email BIGINT,
    exclude_bots BIGINT,
    exclude_params VARCHAR(65535),
    exclude_ips VARCHAR(65535),
    favorite BOOLEAN,
    record VARCHAR(65535),
    record_hash CHAR(64),
    snapshot_date DATE NOT NULL,
    observed_at TIMESTAMPTZ
) SORTKEY (snapshot_date);
