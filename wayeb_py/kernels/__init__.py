"""The compiled loops: arrays in, arrays out; nothing here knows what a pattern, a column or an entity's name is."""
