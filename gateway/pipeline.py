"""The corridor: one request, top to bottom."""
