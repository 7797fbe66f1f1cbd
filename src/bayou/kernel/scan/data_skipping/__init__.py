"""Data skipping: which files may contain a row that matches a predicate.

Start at `pruning`. `skipping` evaluates a predicate over the ranges of `column_ranges`.
"""
