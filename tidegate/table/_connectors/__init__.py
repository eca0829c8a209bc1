"""Connectors of SQL tables: the options of each in ``WITH``, and the source or sink that it is translated to."""
