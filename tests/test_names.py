"""What `import mechint_arith as ma` offers: names that work, are listed, are told in one line, and load late."""

import inspect
import pydoc
import re
import subprocess
import sys

import pytest

import mechint_arith as ma

NAMES = [name for name in ma.__all__ if name != "__version__"]


def test_names_are_listed_and_nothing_else_is():
    assert dir(ma) == sorted(ma.__all__)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_leads_to_what_bears_it(name):
    found = getattr(ma, name)
    assert found.__name__ == name
    assert inspect.getdoc(found)


def test_help_has_one_line_for_each_name():
    told = re.findall(r"^    (\w+)  +\S", ma.__doc__, re.M)
    assert told == NAMES
    assert "sweep               … at every place of a grid" in pydoc.render_doc(ma)


def test_importing_and_listing_load_no_heavy_package():
    code = (
        "import sys, mechint_arith as ma; dir(ma);"
        " print({'torch', 'numpy', 'pandas', 'plotly'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_unknown_names_are_unknown():
    with pytest.raises(AttributeError, match="no attribute 'patchy'"):
        ma.patchy  # noqa: B018
