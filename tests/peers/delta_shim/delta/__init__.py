"""The module names of delta-spark's Python package, for its own tests; the code is Bayou's."""
