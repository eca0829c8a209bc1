"""Formats of tables: encode and decode rows as messages and lines of files, as Flink's formats do."""
