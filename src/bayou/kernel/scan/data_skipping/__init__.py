"""Data skipping: selecting the files that may contain a row that matches a predicate.

Start reading at `pruning`, which selects files. It uses the plan in `skipping`, which evaluates a
predicate over the ranges of columns in each file (`column_ranges`).
"""
