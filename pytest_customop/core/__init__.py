"""Helpers that know nothing about ops, cases or pytest."""
