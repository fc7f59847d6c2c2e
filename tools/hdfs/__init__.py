"""A real HDFS on loopback, for tests: Hadoop's own minicluster."""
