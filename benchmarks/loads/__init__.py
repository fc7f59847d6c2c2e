"""Events that come at their times, and what becomes of them: simulated by processor time, or over real connections."""
