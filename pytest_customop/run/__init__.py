"""Run checks on cases and hold the results, without pytest."""
