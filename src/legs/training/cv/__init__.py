"""Cross-validation."""
