"""Nexmark: an auction house as a stream of events, and queries over it, written in this API."""
