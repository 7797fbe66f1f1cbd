"""Access to Spark's JVM through py4j."""
