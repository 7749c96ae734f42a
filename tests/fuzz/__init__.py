"""Damaged and hostile files against every parser. ``python -m tests.fuzz --help``"""
