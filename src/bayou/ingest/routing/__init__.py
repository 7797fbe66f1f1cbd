"""`route-by`: one topic in several tables, by the value of an expression.

`RecordRouter` splits records by table in tasks, `RoutedTables` holds the tables in the driver, and
`RoutedBatchWriter` commits a batch to them. The default table registers the others, and commits
last.
"""
