"""How fast the engine is, as ratios to something that runs in the same minute on the same machine, with answers checked."""
