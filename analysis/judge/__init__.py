"""Whether a judge's preference follows anything concrete: meta-benchmark, order, weights, edits, agreement."""
