"""Structural measurements: what the weights say, and circuits as values."""
