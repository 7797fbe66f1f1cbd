"""Hooks in PySpark's readers and writers: Bayou answers before Spark does.

`hooks` installs them, `requests` describes what a reader or writer was asked for.
"""
