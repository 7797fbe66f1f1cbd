"""Hooks in PySpark's readers and writers; Bayou uses them to handle calls about Delta tables.

`hooks` installs the hooks; `requests` describes the call of a reader or writer.
"""
