"""What a restart goes on with: the checkpoint folder, states by offset, versions of patterns, a ledger of batches.

A stream that is killed, or loses its power, goes on from here; what is damaged is made again or named with a choice.
"""
