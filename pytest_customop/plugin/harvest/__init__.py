"""The plugin of `--customop-harvest`: calls are recorded while the suite runs, and checked at its end."""
