"""A running pipeline: its Spark session, its topics and their scheduler.

Start at `pipeline`. `topic_run` runs one topic, `scheduler` runs batches of many topics.
"""
