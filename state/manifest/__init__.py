"""Manifests: what a person writes, read with all its mistakes at once."""
