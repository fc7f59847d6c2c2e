"""Typical row patterns, case by case, in the languages of engines that have them: what they answer, not how fast."""
