"""The process of the autoscaler: REST calls and a clock."""
