"""Certificates and keys: what proves who a process is, and whom it believes.

A library over ``cryptography`` and ``ssl``: no option, no gRPC, no socket in it.
"""
