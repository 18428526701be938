"""Speed, as a ratio side by side in one run: what `parity311 bench` measures."""
