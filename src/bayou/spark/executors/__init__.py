"""Spark jobs of Bayou: tasks, task results and cancellation.

Start reading at `executor_tasks`, which runs an operation as a Spark job. The module `jobs` tags
Spark jobs, sets their description and cancels them. `small_rows` sends rows to Python workers
without Spark's check of the sizes of Arrow batches. `versions_read` tells the write tasks of a
query which table versions the query has read.
"""
