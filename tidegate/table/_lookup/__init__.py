"""Joins with what a table has when a row comes: the join, the tables that are asked, and what is kept of their answers."""
