"""What a GRID card holds, what one leaves open and how much that matters, and where two cards differ."""
