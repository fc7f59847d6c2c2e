"""How fast the engine is, as ratios to something that runs beside it on the same machine, with answers checked."""
