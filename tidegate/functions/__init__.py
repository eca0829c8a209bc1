"""What user functions and operators share: functions, contexts, state, windows and expressions. It is independent of the DSL."""
