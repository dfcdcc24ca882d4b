"""The envelope: a grid of configurations as data, planned, sealed, run in shards and verified."""
