"""DELETE, UPDATE, MERGE, OPTIMIZE and VACUUM in a Spark session.

Each command plans with the kernel, runs in the driver or on executors by the size of the files
(`optimize.runs_in_driver`), and commits in the driver.
"""
