"""DELETE, UPDATE, MERGE, OPTIMIZE and VACUUM in a Spark session.

Each command plans with the kernel, runs in the driver or on executors by the size of the files
(`optimize.stays_local`), and commits in the driver.
"""
