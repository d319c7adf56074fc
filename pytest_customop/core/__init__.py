"""Helpers that know nothing of ops, cases or pytest."""
