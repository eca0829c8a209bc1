"""Names of `pyflink.common`: types, watermark strategies, durations, configuration.

Module paths and names are PyFlink's, so that a job moves here by changing its import lines.
"""
