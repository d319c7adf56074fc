"""The plugin of `--customop-scan`: ops of installed packages are audited and checked without a test."""
