"""Scans: selecting the files that a query must read, and reading their rows.

Start reading at `scan`, which lists the files. `data_skipping` skips files by statistics and
partition values. `transform` reads the rows of a file; the information that it needs is in a
`scan_state`.
"""
