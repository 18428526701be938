"""Where records come from: a synthetic city with known truth."""
