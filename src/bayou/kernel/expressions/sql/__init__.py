"""Parsing of SQL expressions in Spark's dialect, with sqlglot.

Start reading at `parser`. `syntax_tree` calls sqlglot, and `translation` converts sqlglot's syntax
tree.
"""
