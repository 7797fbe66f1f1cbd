"""Scans: selecting the files that a query must read, and reading their rows.

Start at `scan`. `scan_state` has the state that all files of a scan share, and `transform` converts
the rows of a file. `data_skipping` skips files by statistics and partition values.
"""
