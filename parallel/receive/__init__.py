"""What is sent to this process, and cannot be asked for again, becomes a log: from sockets, standard input and MQTT."""
