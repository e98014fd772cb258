"""What the program that asks and the one that is asked agree on."""

MODEL = "llama-3.1-8b"
"""The one model that is served."""

PROJECT = "search"
"""The one project that the key may name."""

REPORT = "TIERGATE_OPENAPI_REPORT"
"""The variable that names the file of statuses, one a line."""
