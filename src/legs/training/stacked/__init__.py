"""Many models trained at once."""
