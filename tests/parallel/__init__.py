"""Tests of Spark, streams and Kafka, and what their tests share."""
