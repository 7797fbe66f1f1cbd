"""DELETE, UPDATE, MERGE, OPTIMIZE and VACUUM in a Spark session.

`placement` decides whether the driver or the executors do the work.
"""
