"""SQL text to expressions, in Spark's dialect, with sqlglot.

Start at `parser`. `translation` converts sqlglot's tree.
"""
