"""The compiled loops of places: positions and arrays of geometry in, answers out."""
