"""High availability: leader election, leader retrieval, and small entries that only the leader may change; one interface with a driver for each store."""
