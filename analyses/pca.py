"""Principal components of the numbers' embeddings, as they are and through layer 1's OV."""

from pathlib import Path

import numpy as np
from common import Story, begin, finish, subject

from mechint_arith.circuits.weights import ov1_values
from mechint_arith.figures.plane import cyclic_scatter
from mechint_arith.probes.fourier import energy_by_frequency


def main(out: Path, smoke: bool) -> Story:
    """Draw the first two components, coloured by the multiple of their commonest frequency."""
    found = subject()
    p = found.task.p
    figures, values = {}, {}
    for name, rows in (
        ("W_E", found.model.rows[0, :p]),
        ("W_E_OV1", ov1_values(found.model, found.task)),
    ):
        x = rows.double().numpy()
        u, s, _ = np.linalg.svd(x - x.mean(0), full_matrices=False)
        explained, points = s**2 / (s**2).sum(), u[:, :2] * s[:2]
        k = int(energy_by_frequency(points)[1:].sum(-1).argmax()) + 1
        figures[name] = cyclic_scatter(
            points, np.arange(p) * k % p, period=float(p), labels=range(p),
            axes=tuple(f"PC {i + 1} ({explained[i]:.0%})" for i in range(2)),  # type: ignore[arg-type]
            around_name=f"{k} n mod {p}", title=name,
        )  # fmt: skip
        values[name] = {
            "explained": explained[:10].round(4).tolist(),
            "commonest frequency of PC 1 and 2": k,
        }
    return finish(out, "pca", values, figures)


if __name__ == "__main__":
    begin(main)
