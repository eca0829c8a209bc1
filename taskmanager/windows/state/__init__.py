"""What windows over columns hold: buckets by key group, files of a checkpoint, and their restore."""
