"""Causal measurements: what happens to the output if an activation were another one.

Places are `site.Site`s, results `effects.Effects`. Put one run's activations into another: `patching` (sites and
whole grids), `path` (one reader only), `gradients` (estimates). Replace them by something that knows less:
`ablation`, `edges` (attention entries), `neurons` (all of the last MLP, in closed form). Ask a causal model what
should come out: `interchange`, `alignment` (learned subspaces), `swap` (on folded runs).
"""
