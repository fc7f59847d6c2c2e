"""How good forecasts are: models learnt from one part of a history, scored over the other, beside simpler ones."""
