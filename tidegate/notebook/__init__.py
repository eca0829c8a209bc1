"""Displays streams, jobs and errors in notebooks: as HTML and SVG texts, and live displays.

Nothing of IPython is imported unless the process is a kernel.
"""
