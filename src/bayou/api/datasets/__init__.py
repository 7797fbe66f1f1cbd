"""Tables as pyarrow datasets, for DuckDB, Polars and others. Start at `dataset`."""
