"""What a probe's findings print as; their values are tested where they are measured."""

from mechint_arith.models.checkpoint import Checkpoint
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.init import initial_weights
from mechint_arith.probing import probe
from mechint_arith.tasks.assign_add import AssignAdd


def test_findings_and_verdict_print_in_a_few_lines():
    task = AssignAdd(p=7, n_vars=4, length=10, never_left=1, never_right=1)
    config = ModelConfig(len(task.vocab), 7, 10, d_model=16, d_head=8, d_mlp=(0, 24))
    checkpoint = Checkpoint(config, initial_weights(config, 0), task, 300, 0)
    found = probe(checkpoint, quick=True)
    first, accuracy, verdict = repr(found).splitlines()
    assert first == f"Findings(p = 7, step 300, {found.evidence.n_pairs} number pairs"
    assert f"0var_held {found.accuracy['0var_held'].value:.3f}" in accuracy
    assert verdict == f"  {found.verdict!r})"
    assert repr(found.verdict).startswith(
        f"Verdict(not competent; sharing index {found.verdict.index}; direct-left: not competent"
    )
