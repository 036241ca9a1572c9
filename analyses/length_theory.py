"""The formula table of length generalisation: exact rates of the truncated function, closed form and limit.

python analyses/length_theory.py --out analyses/results
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mechint_arith.files import write_json
from mechint_arith.truncation import limit_accuracy, reduced_modulus, truncated_accuracy

TABLES = {
    4: (50, 100, 200, 51, 101, 202, 150, 300, 151, 201),
    2: (10, 11, 15, 30, 40, 101, 150, 200),
}
"""Training digits -> moduli, in base 10."""


def main(out: Path, smoke: bool = False) -> list[dict[str, Any]]:
    """Write `length_theory.json`: percentages at n + 1, n + 2, n + 3 digits, and limits."""
    rows = []
    for n, moduli in TABLES.items():
        for p in moduli[:2] if smoke else moduli:
            row: dict[str, Any] = {"digits": n, "modulus": p, "reduced": reduced_modulus(p, 10, n)}
            for op in ("add", "mul"):
                limit = limit_accuracy(op, p, 10, n)
                exact = [truncated_accuracy(op, p, 10, n, n + k) for k in (1, 2, 3)]
                row[op] = {
                    "limit": round(100 * float(limit), 4),
                    "lengths": {
                        str(n + k): round(100 * float(r), 4) for k, r in enumerate(exact, 1)
                    },
                }
            rows.append(row)
    write_json(
        out / "length_theory.json", {"command": "python analyses/length_theory.py", "rows": rows}
    )
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("analyses/results"))
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    main(options.out, options.smoke)
