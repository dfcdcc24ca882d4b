"""Statistics: pure functions from arrays and tables to frozen results; no model, no network, no suite."""
