"""All access to Spark's JVM: no other package imports py4j or uses PySpark's private attributes.

There is a module for each concept of Spark, such as `catalog` and `plans`. The functions take a
classic session or DataFrame. The decorator `tested_with` names the Spark versions with which a
function is tested. Start reading at `objects`.
"""
