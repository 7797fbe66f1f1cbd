"""Tables as pyarrow datasets, and queries of tables with DuckDB (`sql`) and Polars (`scan_polars`).

Start at `dataset`. `sources` opens the tables that are arguments of queries.
"""
