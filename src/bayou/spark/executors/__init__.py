"""Work on executors: jobs, tasks, their results and their cancellation.

`executor_tasks` runs one job for an operation, `task_results` carries results and errors back.
"""
