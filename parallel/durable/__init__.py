"""What keeps a stream whole over a crash, for every folder that writes: sealed files, and places to test a crash at."""
