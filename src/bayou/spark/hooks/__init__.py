"""Hooks in PySpark's readers and writers: a call is offered to Bayou first, then to Spark.

`hooks` installs them; `requests` describes the call of a reader or writer.
"""
