"""Queries of tables without Spark: DuckDB (`sql`) and Polars (`scan_polars`).

Start reading at `duckdb_query`. `sources` opens the tables that are arguments of queries.
"""
