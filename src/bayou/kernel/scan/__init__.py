"""Scans: which files answer a query, and how their rows are read.

Start at `scan`. `scan_state` is what all files of a scan share, `transform` reads a file's rows.
`data_skipping` drops files by statistics and partition values.
"""
