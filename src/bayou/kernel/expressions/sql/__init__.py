"""Parsing of SQL expressions in Spark's dialect, with sqlglot.

Start at `parser`. `syntax_tree` calls sqlglot, `translation` converts its tree.
"""
