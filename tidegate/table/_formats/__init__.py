"""The formats of tables: rows as the bytes of messages and lines of files, as Flink's formats write and read them."""
