"""A micro-batch: its offsets, the Spark job that decodes its records, and its commits.

`micro_batch` runs on the driver, `batch_task` on executors. `record_reader` turns records into
rows of the `target_table`.
"""
