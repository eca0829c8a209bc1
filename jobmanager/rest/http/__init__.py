"""HTTP itself: requests, bodies, caches, time limits, and who may change something."""
