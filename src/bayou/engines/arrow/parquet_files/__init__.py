"""Parquet files: footers, row groups, reading with projections, writing with statistics.

`reader` and `writer` are the entry points; `ranged_input` fetches byte ranges of remote files.
"""
