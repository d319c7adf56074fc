"""Entries along dims of arguments: take some of them, in some order, and compare what the op gives."""
