"""Causal measurements: what happens to the output if an activation were another one."""
