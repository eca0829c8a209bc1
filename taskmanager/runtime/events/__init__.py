"""Events that operators send to their coordinators and upstream to producers."""
