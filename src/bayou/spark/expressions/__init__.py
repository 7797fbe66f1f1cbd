"""Conditions and values from users: SQL strings and Columns of Spark.

Start reading at `expressions`. `kernel_eligibility` decides whether the kernel or Spark evaluates
an expression. `catalyst_filters` converts filters of Spark's plans to predicates of the kernel.
"""
