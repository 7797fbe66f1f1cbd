"""`route-by`: writes the records of one topic to several tables, by the value of an expression.

In Spark tasks, `RecordRouter` splits records by table. In the driver, `RoutedTables` holds the
tables, and `RoutedBatchWriter` commits batches. The default table is the table of
`destination.table-path`. It registers the other tables, and a batch commits to it last.
"""
