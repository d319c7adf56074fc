"""Lets the tests import oplib without an installation."""
