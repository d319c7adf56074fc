"""Record the calls that a test suite makes of some ops, and make samples of them."""
