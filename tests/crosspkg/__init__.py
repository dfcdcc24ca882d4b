"""Tests of the cross-package experiment."""
