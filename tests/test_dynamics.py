"""A series is streamed, cached and resumable; phases and orders are found where they were planted."""

import json
import shutil

import numpy as np
import pytest

from mechint_arith import dynamics
from mechint_arith.dynamics import Series, checkpoints, measure_series, read_series
from mechint_arith.errors import InputError
from mechint_arith.figures.series import series_curves
from mechint_arith.files import write_json
from mechint_arith.measures.catalogue import MEASURES, Measure
from mechint_arith.measures.paths import not_competent
from mechint_arith.measures.subject import exact, share_of
from mechint_arith.models.checkpoint import Checkpoint, save, step_path
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.init import initial_weights
from mechint_arith.stats import Estimate
from mechint_arith.tasks.assign_add import ROUTES, AssignAdd

TASK = AssignAdd(p=7, n_vars=4, length=10, never_left=1, never_right=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("run")
    config = ModelConfig(len(TASK.vocab), 7, 10, d_model=16, d_head=8, d_mlp=(0, 24))
    for step in (0, 10, 200):
        weights = initial_weights(config, step)
        save(step_path(place, step), Checkpoint(config, weights, TASK, step, 0))
    return place


def counted(calls):
    """A measure that remembers how often it was taken."""

    def take(subject):
        calls.append(1)
        return {"counted": exact(len(calls), 1), "bare": share_of(subject.hits("bare"))}

    return Measure("counted", take)


def test_a_series_has_one_value_per_step_and_all_measures(folder):
    seen = []
    series = measure_series(folder, n=40, on_checkpoint=lambda done, n: seen.append((done, n)))
    assert series.steps == (0, 10, 200)
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert set(MEASURES) >= {"accuracy", "sharing", "frequencies"}
    for name in ("0var_held", "qk1_margin", "probe_variable_control", "cell a right"):
        assert len(series[name]) == 3
    with pytest.raises(InputError, match="no 'speed'"):
        series["speed"]


def test_finished_checkpoints_are_not_measured_again(folder, tmp_path):
    calls = []
    measure = counted(calls)

    def stop_after_two(done, total):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure_series(folder, [measure], cache=tmp_path, on_checkpoint=stop_after_two)
    first = measure_series(folder, [measure], cache=tmp_path)
    assert len(calls) == 3
    assert measure_series(folder, [measure], cache=tmp_path) == first
    assert [e.value for e in first["counted"]] == [1, 2, 3]
    again = measure_series(folder, [measure], cache=tmp_path, n=50)
    assert len(calls) == 6, "other prompts are another measurement"
    assert again.steps == first.steps
    newer = Measure("counted", measure.take, version=2)
    measure_series(folder, [newer], cache=tmp_path)
    assert len(calls) == 9, "another version is another measurement"


def test_a_changed_or_damaged_file_is_measured_again(folder, tmp_path):
    run, cache = tmp_path / "run", tmp_path / "cache"
    shutil.copytree(folder, run)
    calls = []
    measure_series(run, [counted(calls)], cache=cache)
    shutil.copy(step_path(run, 0), step_path(run, 10))
    measure_series(run, [counted(calls)], cache=cache)
    assert len(calls) == 3, "the content of step 0 was known"
    for i, damage in enumerate((b"{", b"[]", b"\xff", b'{"a": 3}', b'{"a": {"b": 3}}'), 1):
        for path in cache.iterdir():
            path.write_bytes(damage)
        measure_series(run, [counted(calls)], cache=cache)
        assert len(calls) == 3 + 2 * i, "two different contents"


def test_a_series_goes_to_json_and_back(folder, tmp_path):
    series = measure_series(folder, ["accuracy", "qk1_identity"], n=40)
    write_json(tmp_path / "series.json", series.as_dict())
    assert read_series(tmp_path / "series.json") == series
    assert series.until(10).steps == (0, 10)
    np.testing.assert_array_equal(series.curve("0var_held", "n"), [40, 40, 40])
    (tmp_path / "other.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InputError, match="no series"):
        read_series(tmp_path / "other.json")
    with pytest.raises(InputError, match="cannot read"):
        read_series(tmp_path / "absent.json")


def test_sharing_of_checkpoints_that_are_not_competent_is_missing(folder, tmp_path):
    series = measure_series(folder, ["sharing"], cache=tmp_path / "cache", n=40)
    assert np.isnan(series.curve("sharing_index")).all()
    assert np.isnan(series.curve("sigma_direct_both", "low")).all()
    assert series.why_missing("sharing_index", 10) == "not competent"
    assert series.curve("shared_direct_both").tolist() == [0, 0, 0]
    assert np.isfinite(series.curve("route_accuracy_direct")).all()
    kept = json.loads(next((tmp_path / "cache").iterdir()).read_text())
    assert all(0 <= found["sharing_index"]["value"] <= 1 for found in kept.values())
    write_json(tmp_path / "series.json", series.as_dict())
    written = json.loads((tmp_path / "series.json").read_text())
    assert written["values"]["sharing_index"]["value"] == [None] * 3
    assert written["missing"]["sharing_index"]["200"] == "not competent"
    again = read_series(tmp_path / "series.json")
    assert again.missing == series.missing
    assert np.isnan(again.curve("sharing_index")).all()
    assert set(again.until(10).missing["sharing_index"]) == {0, 10}
    line = series_curves(again, ["sharing_index", "route_accuracy_direct"]).data
    assert np.isnan(next(t.y for t in line if t.name == "sharing_index")).all()


def test_only_pairs_with_a_route_that_is_not_competent_are_missing():
    values = {f"route_accuracy_{r}": Estimate(0.99, 0.98, 1.0, 500) for r in ROUTES}
    assert not_competent(values) == {}
    values["route_accuracy_left"] = Estimate(0.91, 0.89, 0.93, 500)
    assert set(not_competent(values)) == {
        "sigma_direct_left",
        "overlap_direct_left",
        "act_direct_left",
        "sharing_index",
    }


def test_folders_that_are_no_series(folder, tmp_path):
    with pytest.raises(InputError, match="not a folder"):
        checkpoints(tmp_path / "absent")
    with pytest.raises(InputError, match="no checkpoints in"):
        checkpoints(tmp_path)
    with pytest.raises(InputError, match="no checkpoint of step 5"):
        measure_series(folder, steps=[5])
    (tmp_path / "final.pt").touch()
    with pytest.raises(InputError, match="no step in its name"):
        checkpoints(tmp_path)
    (tmp_path / "final.pt").unlink()
    for name in ("step_1.pth", "checkpoint_step_1.pth"):
        (tmp_path / name).touch()
    with pytest.raises(InputError, match="two files of step 1"):
        checkpoints(tmp_path)


def test_a_series_of_another_task_is_refused(folder, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(folder, run)
    task = AssignAdd(p=5, n_vars=4, length=10, never_left=1, never_right=1)
    config = ModelConfig(len(task.vocab), 5, 10, d_model=16, d_head=8, d_mlp=(0, 24))
    save(step_path(run, 300), Checkpoint(config, initial_weights(config, 0), task, 300, 0))
    with pytest.raises(InputError, match="one task"):
        measure_series(run, ["qk1_identity"])


def test_outside_files_are_a_series_too(reference, tmp_path):
    place = reference / "assign_and_add"
    names = ["qk0_previous", "qk1_identity"]
    series = measure_series(place, names, steps=[501, 30001], cache=tmp_path)
    assert series.steps == (501, 30001)
    assert series.curve("qk1_margin") == pytest.approx([-3.826, 73.941], abs=0.01)
    assert len(dynamics.checkpoints(place)) == 18


def test_a_series_needs_one_value_per_step():
    with pytest.raises(ValueError, match="one value per step"):
        Series((0, 1), {"x": (exact(1.0, 1),)})
