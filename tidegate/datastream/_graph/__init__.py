"""From a program to its submission: transformations, stream graph, job graph, and executors."""
