"""Writes, copies and reads state files."""
