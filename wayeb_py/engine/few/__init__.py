"""A few events become detections in one compiled call: which patterns allow it, their values, what was found."""

ROOM = 256  # the most events that count as a few
MOST_EACH = 32  # the same where each event is stepped by itself
