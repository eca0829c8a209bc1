"""Uploaded programs, and the blobs (programs and files) of jobs."""
