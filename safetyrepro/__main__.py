"""`python -m safetyrepro`."""

from safetyrepro.cli import main

main()
