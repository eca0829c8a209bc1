"""Messages between operator coordinators in the JobManager and operators in subtasks, and the coordinators' state."""
