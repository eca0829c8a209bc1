"""BATCH execution mode: sorted inputs."""
