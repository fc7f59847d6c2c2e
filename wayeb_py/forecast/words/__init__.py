"""Words as forecasts see them: the symbols of entities, of their places and of pairs, and the nodes they reach."""
