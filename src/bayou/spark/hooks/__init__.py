"""Hooks in PySpark's readers and writers, with which Bayou handles calls about Delta tables.

`hooks` installs the hooks; `requests` describes the call of a reader or writer.
"""
