"""Which items an update makes worse, and which signal would have told: tables in, results out."""
