"""What a restart continues with: the checkpoint folder, states by offset, versions of patterns, a ledger of batches.

A stream that is killed, or loses its power, continues from here; a damaged file is made again, or a message names it
with a choice.
"""
