"""`train …` with options that cannot be: one line, exit code 2, and no folder is made."""

import pytest
import torch

from mechint_arith.models.checkpoint import read, step_path


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (["--p", "1"], "p must be at least 2"),
        (["--length", "7"], "length must be at least 8"),
        (["--device", "nonsense"], "--device nonsense is not usable"),
        (["--every", "0"], "--every must be at least 1"),
        (["--two-var-rule", "x"], "two_var_rule must be one of"),
        (["--train-share", "1"], "train_share must lie"),
        (["--seed", "-1"], "--seed must lie"),
        (["--heads", "0"], "sizes of at least 1, not heads 0"),
        (["--d-mlp", "0"], "sizes of at least 1, not d_mlp 0"),
        (["--lr", "inf"], "lr must be a number"),
        (["--weight-decay", "nan"], "weight_decay must be"),
        (["--threads", "-1"], "--threads must lie"),
        (["--heads", "200"], "d_model 128 is too narrow for 200 heads"),
        (["--batch", "0"], "sizes of at least 1, not batch 0"),
        (["--never-left", "0", "--n-vars", "3", "--two-var-rule", "rows"], "the rule 'rows'"),
        (["--batch", "100000000"], "this training needs about"),
        (["--d-model", "1000000"], "this training needs about"),
        (["--length", "9000"], "this training needs about"),
        (["--length", "1" + "0" * 30], "this training needs about"),
        (["--p", "100000"], "tables of 100000^2 pairs"),
        (["--p", "1" + "0" * 200], "tables of 1000"),
        (["--n-vars", "100000"], "100000^2 variable pairs need about"),
    ],
)
def test_bad_options_are_one_line_and_exit_code_2(run, tmp_path, args, complaint):
    refused(run, "assign-add", tmp_path, args, complaint)


def refused(run, task, tmp_path, args, complaint):
    code, out, err = run("train", task, "--steps", "2", "--out", str(tmp_path / "x"), *args)
    assert code == 2
    assert complaint in err
    assert (out, err.count("\n")) == ("", 1)
    assert not (tmp_path / "x").exists()


DIGITS_AND_MODULAR = [
    (["--steps", "0"], "steps must be at least 1"),
    (["--lr", "-1"], "lr must be positive"),
    (["--lr", "nan"], "lr must be a number"),
    (["--weight-decay", "-1"], "weight_decay cannot"),
    (["--heads", "0"], "sizes of at least 1, not heads 0"),
    (["--heads", "500"], "is too narrow for 500 heads"),
    (["--layers", "0"], "sizes of at least 1, not layers 0"),
    (["--d-model", "-3"], "sizes of at least 1, not d_model -3"),
    (["--d-mlp", "-3"], "d_mlp"),
    (["--seed", "-1"], "--seed must lie"),
    (["--every", "0"], "--every must be at least 1"),
    (["--threads", "-1"], "--threads must lie"),
    (["--device", "meta"], "--device meta is not usable"),
    (["--d-model", "1000000"], "this training needs about"),
]


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        *DIGITS_AND_MODULAR,
        (["--batch", "0"], "sizes of at least 1, not batch 0"),
        (["--d-mlp", "0"], "sizes of at least 1, not d_mlp 0"),
        (["--batch", "100000000"], "this training needs about"),
        (["--embed-noise", "inf"], "embed_noise must be a number"),
        (["--scale", "nan"], "relative_scale must be a number"),
        (["--to", "5000"], "this training needs about"),
        (["--to", "1000000000"], "10000 digits at most"),
    ],
)
def test_bad_options_of_digits(run, tmp_path, args, complaint):
    refused(run, "digits", tmp_path, args, complaint)


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        *DIGITS_AND_MODULAR,
        (["--beta2", "1"], "betas must be two"),
        (["--attn-coeff", "inf"], "attn_mix must be a number"),
        (["--p", "100000"], "the table of 100000^2 pairs needs about"),
    ],
)
def test_bad_options_of_modular(run, tmp_path, args, complaint):
    refused(run, "modular", tmp_path, args, complaint)


@pytest.mark.parametrize("task", ["assign-add", "digits", "modular"])
@pytest.mark.parametrize("name", ["n" * 300, "file/run", "file"])
def test_folders_that_cannot_be_made(run, tmp_path, task, name):
    (tmp_path / "file").write_text("x")
    code, out, err = run("train", task, "--steps", "2", "--out", tmp_path / name)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "choose a folder" in err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_modular_model_may_have_no_mlp(run, tmp_path):
    args = ["--p", "5", "--d-mlp", "0", "--d-model", "8", "--steps", "1", "--out", tmp_path / "x"]
    assert run("train", "modular", *args)[0] == 0


TINY = {
    "assign-add": ["--p", "5", "--n-vars", "3", "--length", "8", "--never-left", "1"],
    "digits": ["--digits", "1", "--to", "1", "--no-cosine", "--d-model", "8"],
    "modular": ["--p", "5", "--d-model", "8", "--heads", "2", "--train-share", "0.5"],
}


@pytest.mark.parametrize("task", TINY)
def test_a_resumed_run_knows_its_options(run, tmp_path, task):
    small = [*TINY[task], "--seed", "7", "--every", "2"]
    if task == "assign-add":
        small += ["--never-right", "1", "--d-model", "8", "--batch", "8"]
    parts, whole = tmp_path / "parts", tmp_path / "whole"
    assert run("train", task, *small, "--steps", "3", "--out", parts)[0] == 0
    assert run("train", task, *small, "--steps", "6", "--out", whole)[0] == 0
    for options, said in (
        (["--seed", "8"], f"--seed is 8, but the run in {parts} has 7: leave it out"),
        (["--d-model", "16"], f"--d-model is 16, but the run in {parts} has 8: leave it out"),
    ):
        code, _, err = run("train", task, "--out", parts, "--resume", *options)
        assert (code, said in err, err.count("\n")) == (2, True, 1)
    other = "digits" if task == "modular" else "modular"
    code, _, err = run("train", other, "--out", parts, "--resume")
    assert (code, f"a run of `train {task}`" in err) == (2, True)
    again = ["--out", parts, "--resume", "--steps", "6", "--d-model", "8"]
    assert run("train", task, *again)[0] == 0
    one, two = (read(step_path(folder, 6)).weights for folder in (parts, whole))
    assert all(torch.equal(w, two[name]) for name, w in one.items())
    assert step_path(parts, 4).exists()


def test_what_a_cosine_depends_on_cannot_change(run, tmp_path):
    small = ["--digits", "1", "--to", "1", "--d-model", "8", "--out", tmp_path / "x"]
    assert run("train", "digits", *small, "--steps", "2")[0] == 0
    code, _, err = run("train", "digits", "--out", tmp_path / "x", "--resume", "--steps", "3")
    assert (code, "--steps is 3, but the run in" in err) == (2, True)


def test_a_stop_before_anything_is_kept_does_not_speak_of_resuming(run, tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    small = ["--p", "5", "--d-model", "8", "--steps", "2"]
    for name in ("train", "initial_weights"):
        monkeypatch.setattr(f"mechint_arith.cli.run.{name}", stop)
        code, _, err = run("train", "modular", *small, "--out", tmp_path / name)
        assert (code, err.splitlines()[-1]) == (130, "stopped")
