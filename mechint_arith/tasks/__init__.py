"""Sequences and labels as data; nothing here knows a model."""
