"""What operator coordinators in the JobManager and operators in subtasks say to each other, and what a coordinator keeps."""
