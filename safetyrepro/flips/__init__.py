"""Updates of a model: reading outcomes and signals, the flip report, policies for falling back, the release gate."""
