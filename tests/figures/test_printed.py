"""Static pictures: drawn without a browser, the same bytes each time, matplotlib's settings untouched."""

import matplotlib
import numpy as np
import pytest

from mechint_arith.errors import InputError
from mechint_arith.figures import printed


def pictures():
    rng = np.random.default_rng(0)
    effect = {name: rng.random(30) for name in ("direct", "left")}
    chosen = {name: values > 0.5 for name, values in effect.items()}
    steps = [0, 10, 20]
    curve = {"2var_held": np.array([0.1, 0.5, 0.9])}
    return {
        "scatter": printed.scatter(
            {("direct", "left"): (effect["direct"], effect["left"])}, chosen
        ),
        "spectra": printed.spectra(effect, {"direct": (3, 7), "left": ()}),
        "curves": printed.curves(
            steps,
            curve,
            low={"2var_held": curve["2var_held"] - 0.05},
            high={"2var_held": curve["2var_held"] + 0.05},
            starts=(10,),
        ),
    }


@pytest.mark.parametrize(
    ("suffix", "start"), [(".svg", b"<?xml"), (".pdf", b"%PDF"), (".png", b"\x89PNG")]
)
def test_every_picture_in_every_format_twice_the_same(tmp_path, suffix, start):
    settings = dict(matplotlib.rcParams)
    found = []
    for name in ("a", "b"):
        for kind, picture in pictures().items():
            printed.save(picture, tmp_path / f"{name} {kind}{suffix}")
        paths = sorted(tmp_path.glob(f"{name} *"))
        assert len(paths) == 3
        found.append([path.read_bytes() for path in paths])
    assert found[0] == found[1]
    assert all(content.startswith(start) for content in found[0])
    assert all(len(content) < 200_000 for content in found[0])
    assert dict(matplotlib.rcParams) == settings


def test_a_notebook_shows_it():
    assert pictures()["curves"]._repr_png_().startswith(b"\x89PNG")


def test_other_formats_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"should end in \.svg, \.pdf, \.png"):
        printed.save(pictures()["curves"], tmp_path / "x.gif")


def test_key_frequencies_are_numbered_and_dark():
    axis = pictures()["spectra"].axes[0]
    assert [text.get_text() for text in axis.texts] == ["3", "7"]
    dark = [bar.get_facecolor() for bar in axis.patches]
    assert dark[2] == dark[6] != dark[0]
