"""Hooks in PySpark's readers and writers: a call goes to Bayou first, then to Spark.

`hooks` installs the hooks; `requests` describes the call of a reader or writer.
"""
