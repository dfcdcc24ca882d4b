"""What a model makes of items: what it expects along continuations, its last state, where it looks."""
