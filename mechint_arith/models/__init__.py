"""Configuration, hooked model, folded model, checkpoints, foreign files and planted controls."""
