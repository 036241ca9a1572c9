"""Sweeps end with the same numbers whatever is killed on the way; finished points are never run again."""

import inspect
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mechint_arith import sweeps
from mechint_arith.cli.sweep import over_seeds
from mechint_arith.errors import InputError
from mechint_arith.models.checkpoint import read, step_path
from mechint_arith.sweeps import Point, read_sweep, train_point

TINY = """
name = "tiny"
[base]
p = 5
n_vars = 4
length = 8
never_left = 1
never_right = 1
d_model = 8
batch = 16
steps = {steps}
every = {every}
final_n = 100
[grid]
weight_decay = [0.02, 0.1]
seed = [0, 1]
"""


def sweep_file(folder, *, steps=40, every=10, more=""):
    path = folder / "tiny.toml"
    path.write_text(TINY.format(steps=steps, every=every) + more, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Results of the points trained one by one in this process."""

    def results(steps, every):
        folder = tmp_path_factory.mktemp("alone")
        grid = read_sweep(sweep_file(folder, steps=steps, every=every), folder)
        return [train_point(point, grid.out) for point in grid.points]

    return results


def test_a_sweep_file_says_what_varies(tmp_path):
    grid = read_sweep(sweep_file(tmp_path), tmp_path)
    assert [point.name for point in grid.points] == [
        "weight_decay_0.02-seed_0",
        "weight_decay_0.02-seed_1",
        "weight_decay_0.1-seed_0",
        "weight_decay_0.1-seed_1",
    ]
    assert grid.points[2].options["weight_decay"] == 0.1
    assert grid.points[2].options["p"] == 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[grid]\nsteps = 3", "needs at least one option with a list"),
        ("[grid]\nspeed = [1]", "unknown option 'speed'"),
        ("[base]\nseed = 1\n[grid]\nseed = [1]", "both in"),
        ("[grid]\nseed = [1, 1]", "occurs twice"),
        ("[grid]\nsteps = [0]", "steps must be at least 1"),
        ("[base]\nevery = 0\n[grid]\nseed = [1]", "sizes of at least 1, not every 0"),
        ("[grid]\nheads = [0]", "sizes of at least 1, not heads 0"),
        ("[grid]\nheads = ['two']", "heads must be a whole number, not 'two'"),
        ("[grid]\nseed = [-1]", "--seed must lie"),
        ("[grids]\nseed = [1]", "unknown 'grids'"),
        ("[grid", "is not TOML"),
        ("grid = 3", "grid must be a table, not 3"),
        ("base = ['a']\n[grid]\nseed = [1]", "base must be a table"),
        ("out = 3\n[grid]\nseed = [1]", "out must be a text, not 3"),
        ("[grid]\nfinal_n = [2.5]", r"faulty\.toml: final_n must be a whole number, not 2\.5"),
    ],
)
def test_faults_of_a_sweep_file_are_named(tmp_path, text, message):
    path = tmp_path / "faulty.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_sweep(path)


def test_a_stopped_point_goes_on_to_the_same_weights(tmp_path, monkeypatch):
    grid = read_sweep(sweep_file(tmp_path), tmp_path / "whole")
    point = grid.points[0]
    whole = train_point(point, grid.out)
    monkeypatch.setattr("mechint_arith.runs.RunFolder.keep", stopping_after(3))
    with pytest.raises(KeyboardInterrupt):
        train_point(point, tmp_path / "cut")
    monkeypatch.undo()
    assert train_point(point, tmp_path / "cut") == whole
    one, two = (read(step_path(tmp_path / name / point.name, 40)) for name in ("whole", "cut"))
    assert all((one.weights[name] == two.weights[name]).all() for name in one.weights)


def stopping_after(n):
    from mechint_arith.runs import RunFolder

    keep, calls = RunFolder.keep, []

    def kept(self, state):
        keep(self, state)
        calls.append(state.step)
        if len(calls) == n:
            raise KeyboardInterrupt

    return kept


def test_a_longer_run_made_elsewhere_is_taken_over(tmp_path):
    point = read_sweep(sweep_file(tmp_path), tmp_path).points[0]
    longer = Point(point.name, point.varied, {**point.options, "steps": 60})
    train_point(longer, tmp_path)
    (tmp_path / point.name / sweeps.RESULT).unlink()
    state = (tmp_path / point.name / "state.safetensors").read_bytes()
    adopted = train_point(point, tmp_path)
    assert (tmp_path / point.name / "state.safetensors").read_bytes() == state
    assert adopted == train_point(point, tmp_path / "own")
    other = Point(point.name, point.varied, {**point.options, "seed": 9})
    with pytest.raises(InputError, match="other settings"):
        train_point(other, tmp_path)


def test_means_over_seeds(alone):
    rows = over_seeds(alone(40, 10))
    assert [row["varied"] for row in rows] == [{"weight_decay": 0.02}, {"weight_decay": 0.1}]
    found = rows[0]["accuracy"]["0var_seen"]
    assert found["n"] == 2
    assert found["low"] <= found["value"] <= found["high"]


@pytest.fixture
def client():
    """A Dask client whose only worker is a thread of this process."""
    from distributed import Client

    options = {"processes": False, "n_workers": 1, "threads_per_worker": 1}
    with Client(**options, dashboard_address=None) as found:
        yield found


@pytest.mark.filterwarnings("ignore")
def test_a_client_runs_the_missing_points_and_tells_of_all(tmp_path, client):
    grid = read_sweep(sweep_file(tmp_path), tmp_path / "out")
    first = train_point(grid.points[1], grid.out)
    told = []
    found = sweeps.run(grid, client, on_point=told.append)
    assert [result["name"] for result in found] == [point.name for point in grid.points]
    assert told[0] == found[1] == first
    assert len(told) == 4


@pytest.mark.filterwarnings("ignore")
def test_a_point_that_fails_stops_no_other(tmp_path, client):
    grid = read_sweep(sweep_file(tmp_path), tmp_path / "out")
    broken = grid.points[0]
    longer = Point(broken.name, broken.varied, {**broken.options, "lr": 0.1})
    train_point(longer, grid.out)
    (grid.out / broken.name / "step_000040.safetensors").unlink()
    with pytest.raises(InputError, match="another recipe"):
        sweeps.run(grid, client)
    assert len(list(grid.out.glob("*/point.json"))) == 4
    assert sweeps.finished(broken, grid.out) is None


def test_an_address_where_nothing_answers_is_named():
    with (
        pytest.raises(InputError, match="no Dask scheduler answers at nonsense"),
        sweeps.dask_client("nonsense://here"),
    ):
        pass


def start(file, out, workers=2):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [Path(sys.executable).parent / "mechint-arith", "sweep", file]
    command += ["--out", out, "--workers", str(workers)]
    return subprocess.Popen(
        [str(part) for part in command],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def wait_for(condition, seconds=300):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError("nothing happened in time")


def holder(out):
    """Return (point, process) of some run folder that a worker holds at this moment."""
    locks = {str(path.stat().st_ino): path.parent for path in out.glob("*/.lock")}
    for line in Path("/proc/locks").read_text(encoding="utf-8").splitlines():
        fields = line.split()
        inode = fields[5].rpartition(":")[2] if len(fields) > 5 else ""
        if inode in locks and fields[1] == "FLOCK" and "->" not in fields:
            return locks[inode], int(fields[4])
    return None


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="needs /proc/locks")
def test_killed_workers_and_clients_lose_nothing(tmp_path, alone):
    file, out = sweep_file(tmp_path, steps=400, every=20), tmp_path / "out"
    first = start(file, out)
    held = wait_for(lambda: holder(out))
    wait_for(lambda: step_path(held[0], 20).exists())
    os.kill(held[1], signal.SIGKILL)
    done = wait_for(lambda: list(out.glob("*/point.json")))
    first.send_signal(signal.SIGKILL)
    first.wait()
    wait_for(lambda: holder(out) is None)
    finished = {path: path.stat().st_mtime_ns for path in done}
    second = start(file, out, workers=1)
    assert second.wait(timeout=300) == 0
    found = json.loads((out / "sweep.json").read_text(encoding="utf-8"))["points"]
    assert found == alone(400, 20)
    assert all(path.stat().st_mtime_ns == when for path, when in finished.items())
    before = {path: path.stat().st_mtime_ns for path in out.glob("*/*")}
    assert start(file, out).wait(timeout=300) == 0
    after = {path: path.stat().st_mtime_ns for path in out.glob("*/*")}
    assert after == before, "finished points are not run again"


def test_the_example_in_the_help_is_a_sweep(tmp_path):
    from mechint_arith.cli.sweep import sweep

    file = tmp_path / "a.toml"
    file.write_text(inspect.cleandoc(sweep.__doc__).split("```")[1])
    assert len(read_sweep(file, tmp_path).points) == 6
