"""CONTRIBUTING.md says what may import what; here its table is held against every file."""

import ast
import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = "mechint_arith"
FILES = sorted((ROOT / PACKAGE).rglob("*.py"))
AT_THE_TOP = ("__init__.py", "__main__.py")
"""Names of the package itself, in no layer."""


def layers() -> dict[str, int]:
    """Return file name or folder -> layer, as the table has them."""
    rows = re.findall(r"^\| L(\d+) \| (.*?) \|", (ROOT / "CONTRIBUTING.md").read_text(), re.M)
    return {name: int(layer) for layer, names in rows for name in re.findall(r"`(.*?)`", names)}


def part_of(path: Path) -> str:
    """Return a file's entry in the table: its own name, or its folder's."""
    first, *rest = path.relative_to(ROOT / PACKAGE).parts
    return f"{first}/" if rest else first


def layer_of(part: str, table: dict[str, int]) -> int | None:
    """Return the layer of an entry; None where the table has none."""
    return next((layer for name, layer in table.items() if fnmatch(part, name)), None)


def imported(source: str) -> set[str]:
    """Return the entries of all modules that a file imports when it runs, at its top or inside a function.

    What a result's `figure()` imports is left out.
    """
    tree = ast.parse(source)
    left_out = {
        id(inner)
        for node in ast.walk(tree)
        if (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
        or (isinstance(node, ast.FunctionDef) and node.name == "figure")
        for part in node.body
        for inner in ast.walk(part)
    }
    names: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in left_out:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == PACKAGE:
            names |= {f"{PACKAGE}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    modules = {name.split(".")[1] for name in names if name.startswith(f"{PACKAGE}.")}
    return {f"{m}/" if (ROOT / PACKAGE / m).is_dir() else f"{m}.py" for m in modules}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_import_from_their_own_layer_or_above(path):
    part, table = part_of(path), layers()
    if part in AT_THE_TOP:
        return
    own = layer_of(part, table)
    assert own is not None, f"CONTRIBUTING.md has no layer for {part}"
    for other in imported(path.read_text(encoding="utf-8")) - {"__init__.py"}:
        layer = layer_of(other, table)
        assert layer is not None, f"CONTRIBUTING.md has no layer for {other}"
        assert layer <= own, f"L{own} {path.name} imports L{layer} {other}"


def test_the_table_names_only_what_exists():
    names = {part_of(path) for path in FILES}
    assert [name for name in layers() if not any(fnmatch(n, name) for n in names)] == []


def test_imports_are_found_wherever_they_stand():
    source = """
from mechint_arith import stats
if TYPE_CHECKING:
    from mechint_arith.cli import main
def f():
    from mechint_arith.models.load import load_checkpoint
def figure():
    from mechint_arith.figures.heatmap import heat_map
"""
    assert imported(source) == {"stats.py", "models/"}
