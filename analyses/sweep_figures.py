"""Accuracy against two_var_frequency (both rules) and against the share of training pairs, from the sweeps' numbers."""

import json
from pathlib import Path

from common import HERE, Story, begin

from mechint_arith.figures.curves import curves
from mechint_arith.figures.export import save

STUDIES = {
    "two_var_frequency": "two_var_frequency",
    "two_var_frequency_rows": "two_var_frequency",
    "train_share": "train_share",
}
POOLS = ("0var_held", "1var_held", "2var_seen", "2var_held", "2var_restricted_2")


def main(out: Path, smoke: bool) -> Story:
    """Draw mean accuracy over seeds with Student's t limits (clipped to [0, 1])."""
    story: Story = {}
    for study, option in STUDIES.items():
        path = HERE / "results" / f"{study}.json"
        if not path.exists():
            story[study] = f"not there yet: mechint-arith sweep analyses/studies/{study}.toml"
            continue
        rows = json.loads(path.read_text(encoding="utf-8"))["over_seeds"]
        for rule in sorted({row["varied"].get("two_var_rule", "") for row in rows}):
            chosen = [row for row in rows if row["varied"].get("two_var_rule", "") == rule]
            chosen.sort(key=lambda row: row["varied"][option])
            pools = [pool for pool in POOLS if all(pool in row["accuracy"] for row in chosen)]

            def ends(field: str, chosen: list = chosen, pools: list = pools) -> dict:
                return {
                    pool: [min(1, max(0, row["accuracy"][pool][field])) for row in chosen]
                    for pool in pools
                }

            figure = curves(
                [row["varied"][option] for row in chosen], ends("value"), low=ends("low"),
                high=ends("high"), x=option, unit="accuracy", title=f"{study} {rule}",
            )  # fmt: skip
            name = f"{study}{'_' + rule if rule else ''}"
            save(figure, out / f"{name}.html")
            story[name] = {
                row["varied"][option]: round(row["accuracy"]["2var_held"]["value"], 3)
                for row in chosen
            }
    return story


if __name__ == "__main__":
    begin(main)
