"""Errors that end a command with one clear sentence."""

from __future__ import annotations


class SafetyReproError(Exception):
    """Base of the errors whose message is meant for the user as it stands."""


class InputError(SafetyReproError):
    """Bad input: the message names the file, the field, what was found and what would be right.

    The command line prints the message and exits with code 2.
    """


class SuiteFailure(SafetyReproError):
    """A suite's process failed or left incomplete output; the message quotes its log's last lines."""


class EnvironmentMissing(SafetyReproError):
    """A suite's environment is not built and could not be built; the message says what to run."""
