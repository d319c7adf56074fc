"""Entries along dims of arguments: take some of them, in some order, and compare the results."""
