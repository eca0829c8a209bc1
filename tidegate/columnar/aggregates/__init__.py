"""What aggregates are made of: partial columns, sketches, their names, and results."""
