"""States that releases have saved, which later ones must read or refuse with a message."""
