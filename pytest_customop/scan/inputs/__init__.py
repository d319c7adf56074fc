"""The search for arguments that an op accepts, which nobody wrote."""
