"""Who leads a cluster, where that one is, and small entries that only the leader may change: one port, a driver for each store."""
