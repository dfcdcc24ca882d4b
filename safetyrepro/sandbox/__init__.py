"""Code that nobody has read, run in namespaces of its own, and judged by tests that it cannot reach."""
