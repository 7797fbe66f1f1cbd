"""`TopicTable`: write records from a Python program to a topic's table.

Start at `topic_table`; `writer` decodes and commits the records.
"""
