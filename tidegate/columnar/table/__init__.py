"""Tables: rows of fixed-width values by key, for whole batches of keys at once."""
