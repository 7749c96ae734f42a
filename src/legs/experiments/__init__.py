"""What can be shown with the package: one file a table, figure or demonstration."""
