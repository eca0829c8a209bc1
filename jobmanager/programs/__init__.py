"""Uploaded programs and the blobs of jobs."""
