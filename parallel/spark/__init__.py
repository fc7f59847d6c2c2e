"""The Spark session and everything below it: Java, the JVM, workers, what is shipped to them, how a task fails."""
