"""What a recogniser remembers becomes bytes and comes back: the whole of it, or what has changed."""
