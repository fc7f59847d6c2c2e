"""Why a pattern that remembers events of its match was detected, or not: its ways, one by one."""
