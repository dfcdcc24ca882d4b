"""The cross-package experiment: cells, the wire compared, and the report of how far suites disagree."""
