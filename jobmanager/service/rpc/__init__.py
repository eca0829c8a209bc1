"""The gRPC services of the JobManager."""
