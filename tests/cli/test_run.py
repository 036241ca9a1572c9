"""What a training shows while it runs, and the devices it can run on."""

import io

import pytest
from rich.console import Console

from mechint_arith.cli.run import TrainingProgress, check_device
from mechint_arith.errors import InputError

NEWS = "loss 4.1025 · 0var_held 0.017 · 1var_held 0.011 · 2var_held 0.011 · 2var_restricted_2 0.017"


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize(
    "title", ["train", "\\[12/48] a cell of a long name, with positions, seed 1"]
)
def test_news_and_title_are_shown_whole_at_any_width(width, title):
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=True, color_system=None)
    progress = TrainingProgress(console=console)
    progress.add_task(title, total=30_000, completed=12_345, speed="48 steps/s", news=NEWS)
    console.print(progress.get_renderable())
    lines = out.getvalue().splitlines()
    assert all(len(line) <= width for line in lines)
    assert "…" not in out.getvalue()
    words = "".join("".join(lines).split())
    for whole in (NEWS, "12345/30000", "48 steps/s", title.replace("\\", "").split()[0]):
        assert "".join(whole.split()) in words


@pytest.mark.parametrize(
    "device", ["meta", "privateuseone", "cuda:99", "banana", "", "lazy", "cpu:-1", "mkldnn"]
)
def test_devices_that_cannot_train_are_named_with_the_reason(device):
    with pytest.raises(InputError, match=f"--device ?{device} is not usable here: ") as refused:
        check_device(device)
    assert len(str(refused.value)) < 400


def test_the_cpu_can_train():
    check_device("cpu")
