"""What streams do with whole columns."""
