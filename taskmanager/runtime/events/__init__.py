"""Events of operators, to their coordinators and against the stream."""
