"""Scans: selecting the files that a query must read, and reading their rows.

Start at `scan`, which lists the files. `transform` reads the rows of a file with the `scan_state`,
and `data_skipping` skips files by statistics and partition values.
"""
