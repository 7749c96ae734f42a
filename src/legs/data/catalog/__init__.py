"""Named data sets: what they are, where they are found, and the prepared copies of them."""
