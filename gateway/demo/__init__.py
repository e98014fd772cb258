"""A model provider that needs no model: for trying the gateway out, and for tests that need a real upstream."""
