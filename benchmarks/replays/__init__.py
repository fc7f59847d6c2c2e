"""Streams that are replayed and watched: how fast they may go before their sources wait."""
