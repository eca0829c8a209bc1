"""Sans-IO translation: protobuf messages and model values, frames (Arrow batch or event), errors and gRPC status.

Bytes are given, bytes are returned; no socket, file, clock or retry policy.
"""
