"""`route-by`: one topic in several tables, by the value of an expression.

In tasks, `RecordRouter` splits records by table. In the driver, `RoutedTables` holds the tables,
and `RoutedBatchWriter` commits batches. The default table records which other tables exist, and
commits last.
"""
