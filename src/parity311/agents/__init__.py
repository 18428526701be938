"""One file per algorithm; the contract in base.py."""
