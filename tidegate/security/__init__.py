"""Certificates and keys: how processes prove their identity, and whom they trust.

A library over ``cryptography`` and ``ssl``: it knows the options of a configuration (``settings``), and neither gRPC nor asyncio.
"""
