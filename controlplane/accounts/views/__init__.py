"""Signing in and out, and the settings pages that belong to people."""
