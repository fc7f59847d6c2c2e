"""Why a pattern over pairs was detected or not: the encounters of two entities, and how near they came."""
