"""From a compiled plan to a job: sources, operators, sinks, and results that come back to the program."""
