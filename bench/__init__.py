"""Measurements of performance: ratios taken in one run on one machine, never timed tests."""
