"""`safetyrepro grid`: tables in, JSON and a page out."""
