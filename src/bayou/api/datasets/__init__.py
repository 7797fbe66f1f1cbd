"""Tables as pyarrow datasets, which DuckDB, Polars and others scan. Start reading at `dataset`."""
