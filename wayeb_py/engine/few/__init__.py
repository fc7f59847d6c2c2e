"""A few events become detections in one compiled call: which patterns allow it, their values, what was found."""

ROOM = 32  # so many events at most are a few
