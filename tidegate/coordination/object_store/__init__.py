"""A bucket alone: one object, the ledger, which is changed by compare-and-swap, and files beside it."""
