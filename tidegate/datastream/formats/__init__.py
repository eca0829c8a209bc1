"""Formats of messages under PyFlink's names (``pyflink.datastream.formats``)."""
