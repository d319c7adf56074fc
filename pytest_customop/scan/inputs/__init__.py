"""The search for arguments that an op accepts, if no one wrote a sample."""
