"""Features of nodes and molecules."""
