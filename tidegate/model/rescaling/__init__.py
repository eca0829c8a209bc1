"""Rescaling of a running job: the requested bounds, and the shape that it takes."""
