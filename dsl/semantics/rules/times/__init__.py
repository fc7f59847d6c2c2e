"""Derives from a rule's time conditions how long each row is kept, and explains why."""
