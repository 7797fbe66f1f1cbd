"""Conditions and values from users: SQL strings and Columns of Spark.

Start with `expressions`. `kernel_eligibility` decides whether the kernel or Spark evaluates an
expression. `catalyst_filters` translates filters of Spark's plans for the kernel.
"""
