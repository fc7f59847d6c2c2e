"""A few events become detections in one compiled call: which patterns allow it, their values, what was found."""

ROOM = 32  # the most events that count as a few
