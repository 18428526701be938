"""What parity costs, and what it takes to reach it."""
