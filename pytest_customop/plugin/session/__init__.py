"""The plugin's state during a session, and the data that processes exchange."""
