"""The compiled loops of matches: values of events fold into measures, starts step one by one, overlaps are dropped."""
