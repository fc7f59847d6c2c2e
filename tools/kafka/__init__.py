"""A real Kafka broker on this machine, for tests, demonstrations and benchmarks."""
