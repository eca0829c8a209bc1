"""SQL on a stream: ``stream.sql("SELECT ... FROM input ...")``. See ``planning``."""
