"""Composition root: a configuration becomes a running gateway; the only room that constructs things."""
