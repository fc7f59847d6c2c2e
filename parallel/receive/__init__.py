"""What is sent to this process, and cannot be requested again, becomes a log: from sockets, standard input and MQTT."""
