"""Canonical configs as YAML: anchors and models."""
