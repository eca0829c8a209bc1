"""Lookup joins: the join, the tables that it reads, and their caches."""
