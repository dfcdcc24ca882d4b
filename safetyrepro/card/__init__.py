"""GRID cards: written from a sealed run, an anchor run or imported logs, read back, and held to their run."""
