"""From reports to estimated incidents, with intervals."""
