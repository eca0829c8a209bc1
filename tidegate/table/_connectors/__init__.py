"""The connectors of tables: what each takes in ``WITH``, and the stream or sink that it becomes."""
