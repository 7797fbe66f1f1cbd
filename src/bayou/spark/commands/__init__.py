"""DELETE, UPDATE, MERGE, OPTIMIZE and VACUUM in a Spark session.

The kernel plans each command. A command on small files runs in the driver, a command on large files
on executors (`optimize.runs_in_driver`). The driver commits.
"""
