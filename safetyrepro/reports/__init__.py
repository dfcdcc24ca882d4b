"""Pages for people: self-contained HTML with inline figures, rendered from a report's JSON."""
