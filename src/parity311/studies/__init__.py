"""How claims were tested: the paper's programme, the price of parity, what agents reach."""
