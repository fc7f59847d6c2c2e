"""Rules and facts become their meaning: members, conditions, bounds on time, and how long rows are kept."""
