"""Steps about the run itself: conditions, pauses, and a person's word."""
