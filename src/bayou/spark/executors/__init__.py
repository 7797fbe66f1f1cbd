"""Work on executors: jobs, tasks, their results and their cancellation.

`executor_tasks` runs an operation as a Spark job, `jobs` tags and cancels jobs, and `engine` is the
engine of the driver.
"""
