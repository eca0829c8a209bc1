"""High availability in a bucket: the ledger, one object that is changed by compare-and-swap, and files beside it."""
