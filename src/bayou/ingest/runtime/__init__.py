"""A running pipeline: its Spark session, its topics and their scheduler.

Start reading at `pipeline`. `topic_run` runs one topic, and `scheduler` schedules the batches of
all topics.
"""
