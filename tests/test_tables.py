"""Tables as files: what CSV and LaTeX hold, and what other names say."""

import pandas as pd
import pytest

from mechint_arith.errors import InputError
from mechint_arith.tables import latex, write_table

FRAME = pd.DataFrame({"a_b": ["x%", "–"], "0v\nheld": [0.5, float("nan")], "n": [1, 2]})


def test_latex_escapes_text_and_leaves_out_leading_zeros():
    text = latex(FRAME)
    assert r"a\_b & \shortstack{0v\\held} & n \\" in text
    assert r"x\% & .500 & 1 \\" in text
    assert r"-- & -- & 2 \\" in text
    assert text.count("{") == text.count("}")
    assert latex(pd.DataFrame({"a": [-0.25, 0.99999]})).count("-.250") == 1


def test_the_suffix_says_which(tmp_path):
    write_table(FRAME, tmp_path / "a.csv")
    write_table(FRAME, tmp_path / "a.tex")
    assert (tmp_path / "a.csv").read_text().endswith("x%,0.5,1\n–,,2\n")
    assert "tabular" in (tmp_path / "a.tex").read_text()
    with pytest.raises(InputError, match=r"expected \.csv or \.tex"):
        write_table(FRAME, tmp_path / "a.docx")
