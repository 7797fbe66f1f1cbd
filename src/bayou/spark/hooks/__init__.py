"""Hooks in PySpark's readers and writers, which call Bayou before Spark.

`hooks` installs them; `requests` describes the call of a reader or writer.
"""
