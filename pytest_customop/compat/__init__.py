"""The only package that uses private API of torch and pytest: one function per need.

The docstring of each module lists the private names that it uses: what each is, the versions in which it
was seen, and the public alternative if there is one. The tests in `tests/test_compat_*.py` fail when torch
moves a name.
"""
