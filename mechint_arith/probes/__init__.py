"""Correlational measurements: what can be read out of weights and activations."""
