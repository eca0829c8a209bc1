"""The shell of the autoscaler: REST calls and a clock."""
