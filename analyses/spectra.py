"""Spectra of the embedding, the neurons and W_out W_U over the numbers, each against its permutation null."""

from pathlib import Path

import numpy as np
from common import Story, begin, finish, subject

from mechint_arith.circuits.weights import logit_table, ov1_values
from mechint_arith.figures.spectra import spectrum
from mechint_arith.probes.key_frequencies import Null, key_frequencies, pair_key_frequencies


def main(out: Path, smoke: bool) -> Story:
    """Find and draw the key frequencies; nothing is taken from another run."""
    found, rng = subject(), np.random.default_rng(0)
    p, null = found.task.p, Null(100 if smoke else 1000)
    post = found.run("bare").post.numpy().reshape(p, p, -1)
    keys = {
        "embedding": key_frequencies(found.model.rows[0, :p], null=null, rng=rng),
        "embedding through OV1": key_frequencies(
            ov1_values(found.model, found.task), null=null, rng=rng
        ),
        "W_out W_U": key_frequencies(
            logit_table(found.model, found.task).values, axis=1, null=null, rng=rng
        ),
    }
    over_pairs = pair_key_frequencies(post, null=null, rng=rng)
    figures = {
        name.replace(" ", "_"): spectrum(
            k.shares[1:], key=k.frequencies, null=k.floor, null_name="floor", title=name
        )
        for name, k in keys.items()
    }
    figures["neurons"] = spectrum(
        over_pairs.shares[1:], key=over_pairs.frequencies, title="neurons over pairs"
    )
    values = {name: list(map(int, k.frequencies)) for name, k in keys.items()}
    values["neurons over pairs"] = list(map(int, over_pairs.frequencies))
    return finish(out, "spectra", values, figures)


if __name__ == "__main__":
    begin(main)
