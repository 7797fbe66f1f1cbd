"""Filters that other engines push into a scan, as predicates for the kernel's data skipping.

`pyarrow_expressions` and `polars_expressions` read an engine's filter as a tree of calls
(`filter_calls`); `skipping_predicates` converts the tree. Start with `skipping_predicates.py`.
"""
