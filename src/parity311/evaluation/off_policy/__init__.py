"""What another policy would have earned, from decisions that are already on record."""
