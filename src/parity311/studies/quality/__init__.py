"""How close agents come to the best that is known."""
