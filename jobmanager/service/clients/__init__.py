"""What clients ask of the JobManager by gRPC."""
