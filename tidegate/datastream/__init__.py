"""Names of `pyflink.datastream`: the environment, streams, functions, windows and state descriptors.

It builds a job graph and hands it to a client; nothing in this room runs a record.
"""
