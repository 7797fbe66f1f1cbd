"""Conversion of filters from pyarrow, DuckDB and Polars to predicates for data skipping.

`pyarrow_expressions` and `polars_expressions` convert a filter to a tree of calls (`filter_calls`).
`skipping_predicates` converts the tree to a predicate; start there.
"""
