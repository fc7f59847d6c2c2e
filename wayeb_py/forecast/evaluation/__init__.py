"""Scores forecasts: models learnt from one part of a history, tried on the other, beside simpler ones."""
