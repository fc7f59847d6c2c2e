"""The commands about what comes next: `wayeb learn` and `wayeb forecast`."""
