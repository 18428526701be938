"""Real data: from NYC Open Data, the Census and a city's own exports to the canonical tables."""
