"""The experiments on several entities and on time that passes: pairs, silences, patterns that read others."""
