"""Expressions and predicates: the model, SQL parsing, types and evaluation over Arrow.

Start reading at `model`. `sql` parses expressions, and `functions` has a module for each group of
functions.
"""

__all__: list[str] = []
