"""Judges: asking one to compare answers, and asking whether its preference follows anything concrete."""
