"""Spark jobs of Bayou: tasks, task results and cancellation.

Start with `executor_tasks`, which runs an operation as a Spark job. `jobs` tags and cancels jobs.
`versions_read` informs a query's write tasks about the table versions that the query reads.
"""
