"""A committed reply on its way to the client; owns it until it is settled."""
