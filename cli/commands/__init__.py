"""The commands of `tidegate`, one file for each group."""
