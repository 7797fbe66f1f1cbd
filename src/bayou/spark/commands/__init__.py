"""DELETE, UPDATE, MERGE, OPTIMIZE and VACUUM in a Spark session.

The kernel plans each command. The driver or the executors rewrite the files, depending on the size
of the files (`optimize.runs_in_driver`). The driver commits.
"""
