"""Sources that can be read again from any offset: folders, Kafka topics, replays, and several of them as one."""
