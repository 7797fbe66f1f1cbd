"""A micro-batch: Kafka offsets, the Spark job that decodes records, and the commit.

`micro_batch` runs on the driver, `batch_task` on executors. `record_reader` turns records into
rows, `target_table` is the table they go to.
"""
