"""The compiled loops of rules: sorted runs, keys and cells; arrays in, arrays out."""
