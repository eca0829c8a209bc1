"""CSV and Avro, as files and as messages."""
