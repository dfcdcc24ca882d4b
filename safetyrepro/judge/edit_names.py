"""Names of the targeted edits, by what they change."""

CONTENT_EDITS = ("facts",)
"""Make the answer worse in substance and leave its form as it is."""
SURFACE_EDITS = ("style", "sarcasm", "padding", "layout")
"""Leave the substance as it is."""
EDITS = (*CONTENT_EDITS, *SURFACE_EDITS)
