"""What clients may ask of running subtasks, and how much."""
