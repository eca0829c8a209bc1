"""CSV, Avro, JSON and Protobuf, as files and as messages."""
