"""Requests of clients by gRPC: submissions, snapshots, rescales, status and watches."""
