"""Certificates and keys: what proves who a process is, and whom it believes.

A library over ``cryptography`` and ``ssl``: it knows the options of a configuration (``settings``), and neither gRPC nor asyncio.
"""
