"""Child processes that never outlive the gateway, and the Valkey server that is one of them."""
