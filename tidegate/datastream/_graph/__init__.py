"""From a program to what is submitted: transformations, the stream graph, the job graph, and who takes it."""
