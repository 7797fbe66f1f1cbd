"""Data skipping: selecting the files that may contain a row that matches a predicate.

Start at `pruning`. `skipping` evaluates a predicate over the ranges in `column_ranges`.
"""
