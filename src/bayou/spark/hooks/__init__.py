"""Hooks in PySpark's readers and writers; they let Bayou handle the calls for Delta tables.

`hooks` installs the hooks; `requests` describes the call of a reader or writer.
"""
