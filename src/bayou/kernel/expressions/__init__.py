"""Expressions and predicates: the model, SQL parsing, types and evaluation over Arrow.

Start at `model`. `sql` parses text, `functions` has one module for each group of functions.
"""

__all__: list[str] = []
