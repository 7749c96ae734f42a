"""Apply trained models: predictions and embeddings of files of any length."""
