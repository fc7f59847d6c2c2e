"""The same patterns in the words of other engines: one module for each peer, which says which form was chosen and why.

A module declares its `FORM` without importing the peer, so that a peer that is not installed can be named as missing.
What belongs to a user's own text stands between comments `lines: TASK` and `lines: end`, and is counted.
"""
