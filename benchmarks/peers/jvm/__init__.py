"""What peers that live in a JVM need: libraries from Maven Central, compiled classes, an environment for Flink."""
