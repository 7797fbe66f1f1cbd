"""`TopicTable`, which writes records of a Python program to a topic's table.

Start at `topic_table`; `direct_writer` decodes and commits the records.
"""
