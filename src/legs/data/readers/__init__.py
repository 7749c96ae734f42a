"""Readers: files and Python objects as graphs."""
