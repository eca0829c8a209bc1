"""Whether the operators of a program can read what a checkpoint holds of them, judged without running the job."""
