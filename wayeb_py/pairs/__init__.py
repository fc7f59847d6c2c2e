"""Events of several entities become events of their pairs: who is near whom, and how they move."""
