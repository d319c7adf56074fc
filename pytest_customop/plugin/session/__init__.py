"""What the plugin remembers during a session, and what travels between processes."""
