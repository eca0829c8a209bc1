"""Conversion between model values and bytes without I/O: protobuf messages, frames (Arrow batch or event), errors and gRPC status.

Bytes are given, bytes are returned; no socket, file, clock or retry policy.
"""
