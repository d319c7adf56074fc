"""The scan of a package without tests: what its ops register, and inputs that they accept."""
