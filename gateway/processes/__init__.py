"""The gateway as processes: a thin supervisor over workers that serve, and over the Valkey that they share."""
