"""What a match remembers: events that letters name, the ways on which they do, measures of the match so far; and where
skipped events would invent a match."""
