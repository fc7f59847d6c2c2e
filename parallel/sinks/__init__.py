"""What a stream finds goes out: into a folder of Parquet, standard output, a Kafka topic, a user's function."""
