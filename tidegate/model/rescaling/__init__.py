"""Another parallelism for a job that runs: what is wanted of it, and the shape that it takes."""
