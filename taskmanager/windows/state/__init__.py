"""The state of windows over columns: buckets by key group, checkpoint files, and their restore."""
