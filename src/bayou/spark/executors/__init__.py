"""Spark jobs of Bayou: tasks, task results and cancellation.

Start with `executor_tasks`, which runs an operation as a Spark job. `jobs` tags and cancels jobs.
`versions_read` passes the table versions that a query reads to the query's write tasks.
"""
