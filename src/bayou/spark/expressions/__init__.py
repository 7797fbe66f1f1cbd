"""Conditions and values from users: SQL strings and Columns of Spark.

Start at `expressions`. `kernel_eligibility` decides whether the kernel can evaluate one.
"""
