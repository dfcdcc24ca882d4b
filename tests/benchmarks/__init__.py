"""Tests of the benchmarks: data, prompts, extraction, scores."""
