"""Configurations and keys of other gateways, as this one's: what a file or a table says becomes what ours would say.

Never gives more than was given: what cannot be carried as it is becomes narrower, or is left out, and either is told.
"""
