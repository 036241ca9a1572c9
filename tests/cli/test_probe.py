"""`probe` and `ask` as a user meets them: results, tables, and one line for everything that cannot be used."""

import csv
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from mechint_arith.models.bridge import state_dict
from mechint_arith.models.checkpoint import Checkpoint, save
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.init import initial_weights
from mechint_arith.tasks.assign_add import AssignAdd

SHIPPED = Path(__file__).parents[2] / "checkpoints"
TASK = AssignAdd(p=7, n_vars=4, length=10, never_left=1, never_right=1)
CONFIG = ModelConfig(
    d_vocab=len(TASK.vocab), d_vocab_out=7, n_ctx=10, d_model=12, d_head=6, d_mlp=(0, 20)
)


@pytest.fixture
def ckpt(tmp_path):
    path = tmp_path / "step_000004.safetensors"
    save(path, Checkpoint(CONFIG, initial_weights(CONFIG, 0), TASK, 4, 0))
    return path


def test_results_follow_the_documented_schema(ckpt, run, tmp_path):
    code, out, _ = run("probe", "--ckpt", ckpt, "--out", tmp_path / "out", "--seed", 3)
    assert code == 0
    assert "not competent" in out
    found = json.loads((tmp_path / "out" / "results.json").read_text())
    assert found["verdict"]["name"] == "not competent"
    assert len(found["verdict"]["reasons"]) == 4
    assert set(found["accuracy"]["0var_held"]) == {"value", "low", "high", "n"}
    assert found["accuracy"]["2var_held"]["n"] == 2000
    for pair in ("direct-left", "direct-right", "direct-both"):
        entry = found["sharing"]["pairs"][pair]
        assert entry["verdict"] == "not competent"
        for index in ("sigma", "swap", "overlap", "act"):
            assert set(entry[index]) == {"value", "low", "high", "n"}
    assert set(found["sharing"]["index"]) == {"value", "low", "high", "n"}
    assert found["frequencies"]["reason"].startswith("no route is competent")
    assert len(found["sha256"]) == 64
    assert "probe --ckpt" in found["command"]
    assert found["versions"]["torch"] == torch.__version__
    assert found["task"]["split_seed"] == 42
    report = (tmp_path / "out" / "report.html").read_text()
    assert len(report) < 10e6
    assert 'src="http' not in report


def test_json_on_stdout_is_json_alone(ckpt, run):
    code, out, _ = run("probe", "--ckpt", ckpt, "--json", "--quick")
    assert code == 0
    assert json.loads(out)["verdict"]["name"] == "not competent"


def test_the_verdict_stands_first_and_last_with_its_meaning_and_its_error_rate(run, tmp_path):
    path = SHIPPED / "assign_add_small" / "step_006000.safetensors"
    code, out, _ = run("probe", "--ckpt", path, "--quick", "--out", tmp_path)
    lines = out.splitlines()
    called = "Verdict on the last MLP's neurons: shared"
    assert code == 0
    assert (lines[3], lines[-2]) == (called, called)
    report = (tmp_path / "report.html").read_text()
    for text in (" ".join(out.split()), report):
        assert "on 7 + 12 carry it on x + 12, 7 + y and x + y too." in text
        assert "control models with planted truth" in text
        assert text.index("control models with planted truth") < text.index("0var_held a + a")
        assert "assumed" not in text
    assert report.count("number pairs</span>") == 1
    found = json.loads((tmp_path / "results.json").read_text())
    assert found["verdict"]["meaning"].endswith("x + y too.")


def test_several_files_give_one_table(ckpt, run, tmp_path):
    save(
        tmp_path / "step_000009.safetensors",
        Checkpoint(CONFIG, initial_weights(CONFIG, 1), TASK, 9, 1),
    )
    tables = ("--table", tmp_path / "table.csv", "--table", tmp_path / "table.tex")
    code, out, _ = run("probe", "--ckpt", tmp_path, "--quick", *tables)
    assert code == 0
    assert "restr" in out
    assert out.count("not competent") == 2
    rows = (tmp_path / "table.csv").read_text().splitlines()
    assert rows[0].startswith("folder,file,step,seed,0var_seen,0var_seen low,0var_seen high,")
    assert [row.split(",")[2] for row in rows[1:]] == ["4", "9"]
    assert r"\shortstack{0v\\seen}" in (tmp_path / "table.tex").read_text()


def test_bad_files_and_other_tasks_are_named_and_the_others_measured(ckpt, run, tmp_path):
    folder, out, table = tmp_path / "mixed", tmp_path / "out", tmp_path / "table.csv"
    folder.mkdir()
    shutil.copy(ckpt, folder / "a.safetensors")
    shutil.copy(SHIPPED / "modular_add_p53" / "step_000200.safetensors", folder / "b.safetensors")
    shutil.copy(SHIPPED / "digits" / "add_relative.safetensors", folder / "c.safetensors")
    (folder / "d.pt").write_bytes(b"")
    huge = {name: torch.full_like(w, 1e6) for name, w in initial_weights(CONFIG, 0).items()}
    save(folder / "e.safetensors", Checkpoint(CONFIG, huge, TASK, 4, 0))
    code, shown, err = run(
        "probe", "--ckpt", folder, "--quick", "--out", out, "--table", table, "--seed", 1
    )
    assert code == 2
    lines = err.splitlines()
    for line, (name, reason) in zip(
        lines,
        [
            ("c.safetensors", "`length` reads this one"),
            ("d.pt", "is empty"),
            ("e.safetensors", "the logits are NaN or infinite"),
            ("2 of 5 files measured", "see the lines above"),
        ],
        strict=True,
    ):
        assert line.startswith("error: ")
        assert name in line
        assert reason in line
    assert "not competent" in " ".join(shown.split())
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [row["file"] for row in rows] == ["a.safetensors", "b.safetensors"]
    assert [row["step"] for row in rows] == ["4", "200"]
    assert (rows[0]["verdict"], rows[0]["circuit"]) == ("not competent", "")
    assert (rows[1]["verdict"], rows[1]["circuit"]) == ("", "none")
    assert float(rows[1]["seen"]) == 1.0
    written = sorted(str(path.relative_to(out)) for path in out.rglob("*.*"))
    assert written == [f"{n}/{file}" for n in "ab" for file in ("report.html", "results.json")]


def test_where_no_file_can_be_used_no_table_is_written(run, tmp_path):
    for name in ("a.pt", "b.pt"):
        (tmp_path / name).write_bytes(b"")
    code, _, err = run("probe", "--ckpt", tmp_path, "--table", tmp_path / "t.csv", "--json")
    assert code == 2
    assert err.splitlines()[-1].startswith("error: 0 of 2 files measured")
    assert not (tmp_path / "t.csv").exists()


def test_one_modular_file_gives_a_table_too(run, tmp_path):
    path = SHIPPED / "modular_add_p53" / "step_000200.safetensors"
    code, _, _ = run("probe", "--ckpt", path, "--quick", "--table", tmp_path / "t.tex")
    assert code == 0
    assert r"\midrule" + "\n200 & " in (tmp_path / "t.tex").read_text()


@pytest.mark.parametrize("kind", ["no MLP", "MLP of zeros"])
def test_a_model_whose_mlp_does_nothing_gets_a_verdict_and_a_whole_report(run, tmp_path, kind):
    config = replace(CONFIG, d_mlp=(0, 0)) if kind == "no MLP" else CONFIG
    weights = {n: 0 * w if "mlp" in n else w for n, w in initial_weights(config, 0).items()}
    save(tmp_path / "a.safetensors", Checkpoint(config, weights, TASK, 4, 0))
    out = tmp_path / "out"
    code, _, err = run("probe", "--ckpt", tmp_path / "a.safetensors", "--out", out)
    assert (code, err) == (0, "")
    assert json.loads((out / "results.json").read_text())["verdict"]["name"] == "not competent"
    said = "None: the last layer has no MLP." in (out / "report.html").read_text()
    assert said == (kind == "no MLP")


def test_options_that_contradict_a_file_of_ours_are_refused(ckpt, run):
    for options, said in (
        (("--p", 5), "--p 5 was given, but the file says 7"),
        (("--layout", "transposed"), "says itself what it is: leave --layout transposed out"),
    ):
        code, _, err = run("probe", "--ckpt", ckpt, *options)
        assert code == 2
        assert said in err
        assert err.count("\n") == 1
    assert run("probe", "--ckpt", ckpt, "--quick", "--p", 7, "--split-seed", 42)[0] == 0


def test_outside_file_states_how_it_was_read(run, tmp_path):
    path = tmp_path / "outside.pth"
    torch.save(state_dict(CONFIG, initial_weights(CONFIG, 0)), path)
    options = ("--task", "assign-add", "--p", 7, "--never-left", 1, "--never-right", 1)
    code, out, _ = run("probe", "--ckpt", path, "--quick", *options, "--out", tmp_path / "out")
    assert code == 0
    beside = "which pairs were trained on; assumed: split_seed 42, train_share 0.7."
    assert beside in " ".join(out.split())
    assert beside in (tmp_path / "out" / "report.html").read_text()
    for said in (
        "layout transformer-lens",
        "stored as float32",
        "dropped blocks.0.mlp",
        "split_seed 42",
    ):
        assert said in out.replace("\n", " ")


def test_unusable_input_is_one_line_and_exit_code_2(ckpt, run, tmp_path):
    (tmp_path / "empty.pth").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("x")
    cases = [
        (("probe",), "which checkpoint"),
        (("probe", "--ckpt", tmp_path / "no.pth"), "no such file"),
        (("probe", "--ckpt", tmp_path / "empty.pth"), "is empty"),
        (("probe", "--ckpt", tmp_path / "folder"), "no checkpoints in"),
        (("probe", "--ckpt", ckpt, "--out", tmp_path / "file"), "is a file"),
        (("probe", "--ckpt", ckpt, "--out", "/proc/nowhere"), "cannot write"),
        (("probe", "--ckpt", ckpt, "--table", "x.docx"), "ends in .csv or .tex"),
        (("probe", "--ckpt", ckpt, "--threads", -1), "must lie between 0 and 1024"),
        (("ask", "a 1 + a b =", "--ckpt", ckpt), "b is not assigned"),
        (("ask", "+ 1 2 =", "--ckpt", ckpt, "--top", 0), "top must be 1 or more"),
    ]
    for args, complaint in cases:
        code, _, err = run(*args)
        assert code == 2, args
        assert complaint in err
        assert err.count("\n") == 1, err
        assert "Traceback" not in err


def test_wrong_vocabulary_for_the_task(run, tmp_path):
    weights = state_dict(CONFIG, initial_weights(CONFIG, 0))
    weights["embed.W_E"] = weights["embed.W_E"][:10]
    torch.save(weights, tmp_path / "a.pth")
    code, _, err = run("probe", "--ckpt", tmp_path / "a.pth", "--task", "assign-add")
    assert code == 2
    assert "leave 0 variables" in err


def test_ask_shows_answer_attention_and_parts(ckpt, run, tmp_path):
    figure = tmp_path / "a.html"
    code, out, _ = run("ask", "a 3 b 5 + a b =", "--ckpt", ckpt, "--figure", figure)
    assert code == 0
    for part in ("probability", "attention from =", "layer 1 head 0", "MLP 1", "margin"):
        assert part in out
    assert figure.stat().st_size > 1000
    code, out, _ = run("ask", "+ 3 5 =", "--ckpt", ckpt, "--json", "--top", 2)
    answer = json.loads(out)
    assert answer["right"] == 1
    assert len(answer["top"]) == 2


def test_ask_reads_ordinary_pairs_of_a_modular_model(run, tmp_path):
    from mechint_arith.tasks.modular import ModularTask

    for op, right in (("add", 2), ("div", 4)):
        task = ModularTask(p=5, op=op)
        config = ModelConfig(
            d_vocab=6, d_vocab_out=5, n_ctx=3, n_layers=1, d_model=8, d_head=4, d_mlp=(8,)
        )
        save(tmp_path / "m.safetensors", Checkpoint(config, initial_weights(config, 0), task))
        code, out, _ = run(
            "ask",
            "3 2 =" if op == "div" else "3 4 =",
            "--ckpt",
            tmp_path / "m.safetensors",
            "--json",
        )
        assert code == 0
        assert json.loads(out)["right"] == right
    code, _, err = run("ask", "3 0 =", "--ckpt", tmp_path / "m.safetensors")
    assert code == 2
    assert "3 div 0 has no answer modulo 5" in err


def test_convert_there_and_back(ckpt, run, tmp_path):
    from mechint_arith.models.load import load_checkpoint

    state, back = tmp_path / "state.pth", tmp_path / "back.safetensors"
    assert run("convert", "--ckpt", ckpt, "--out", state)[0] == 0
    tensors = torch.load(state, weights_only=True)
    assert not tensors["blocks.0.mlp.W_out"].any()
    options = ("--never-left", 1, "--never-right", 1)
    assert run("convert", "--ckpt", state, "--out", back, *options)[0] == 0
    one, two = load_checkpoint(ckpt), load_checkpoint(back)
    assert (one.config, one.task) == (two.config, two.task)
    for name, w in one.weights.items():
        assert torch.equal(w, two.weights[name])
    code, _, err = run("convert", "--ckpt", ckpt, "--out", tmp_path / "a.bin")
    assert code == 2
    assert "ends in .safetensors, .pth or .pt" in err


HEAVY = ("torch", "transformer_lens", "pandas", "plotly", "scipy", "sklearn", "numpy")


def imported(statement: str) -> set[str]:
    """Which heavy packages a fresh interpreter has after a statement."""
    code = f"import sys; {statement}; print(*sorted(set(sys.modules) & set({HEAVY!r})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_help_and_import_are_light():
    assert imported("import mechint_arith, mechint_arith.cli") == set()


def test_that_test_can_fail():
    assert "numpy" in imported("import mechint_arith.stats")


def test_probe_needs_no_transformer_lens():
    assert "transformer_lens" not in imported(
        "import mechint_arith.probing, mechint_arith.asking, mechint_arith.report.findings,"
        " mechint_arith.models.load"
    )


def test_version_of_every_command_has_help():
    for command in ("probe", "ask", "train", "series", "sweep", "length", "theory"):
        done = subprocess.run(
            [sys.executable, "-m", "mechint_arith", command, "--help"],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "COLUMNS": "100"},
        )
        assert "Usage" in done.stdout
