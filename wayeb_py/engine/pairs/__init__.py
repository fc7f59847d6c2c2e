"""Events in order become detections of pairs: the operator, what it reads of events, and its words."""
