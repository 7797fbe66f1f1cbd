"""`TopicTable`, which writes records of a Python program to a topic's table.

Start reading at `topic_table`; `direct_writer` decodes and commits the records.
"""
