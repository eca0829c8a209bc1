"""Files as sources and sinks: paths, formats, encoders, buckets and pending part files."""
