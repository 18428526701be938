"""Service levels: what is kept today, what a policy can promise, and designs that trade the two."""
