"""What user functions and operators share: functions, their contexts, state, windows and expressions. It does not know the DSL."""
