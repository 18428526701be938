"""Independent cases: what is decided about one changes nothing for the next."""
