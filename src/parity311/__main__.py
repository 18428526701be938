"""``python -m parity311`` is the command ``parity311``."""

from __future__ import annotations

from parity311.cli import main

if __name__ == "__main__":
    main()
