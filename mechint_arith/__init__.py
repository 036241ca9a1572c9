"""Mechanistic interpretability of small transformers that do arithmetic."""

__version__ = "0.1.0"
