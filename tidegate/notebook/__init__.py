"""What streams, jobs and errors look like in a notebook: HTML and SVG as texts, and the displays that show them.

Nothing of IPython is imported unless the process is a kernel.
"""
