"""Parsing of SQL expressions in Spark's dialect, with sqlglot.

Start at `parser`. `translation` converts sqlglot's syntax tree.
"""
