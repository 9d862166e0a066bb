"""Databases, one module each."""
