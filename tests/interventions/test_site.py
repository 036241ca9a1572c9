"""Sites: what matches nothing, or cannot change the answer, is refused with the reason before anything runs."""

import re

import numpy as np
import pytest
import torch

from mechint_arith.errors import InputError
from mechint_arith.interventions.inert import why_inert
from mechint_arith.interventions.located import find, locate, position_names
from mechint_arith.interventions.site import Site
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.stages import STAGES
from mechint_arith.tasks.batch import Batch


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"hook": "resid"}, "no hook 'resid'"),
        ({"hook": "resid_pre", "head": 0}, "has no heads"),
        ({"hook": "z", "key": "lhs"}, "has no key positions"),
        ({"hook": "mlp_out", "neurons": (1,)}, "has no neurons"),
        ({"hook": "post", "neurons": ()}, "at least one neuron"),
        ({"hook": "post", "neurons": (1, 1)}, "each once"),
        ({"hook": "resid_pre", "subspace": torch.ones(4, 2)}, "orthonormal"),
        ({"hook": "resid_pre", "subspace": torch.ones(2, 4)}, r"basis \[width rank\]"),
        ({"hook": "pattern", "subspace": torch.eye(2)}, "whole activation vector"),
    ],
)
def test_parts_that_do_not_go_together_are_refused(parts, reason):
    with pytest.raises(InputError, match=reason):
        Site(layer=0, **parts)


def test_help_names_every_hook_and_every_position_of_a_prompt(routes):
    for name in (*STAGES, *routes[0]["both"].positions):
        assert f"`{name}`" in Site.__doc__
    for example in re.findall(r"^ {8}(Site\(.*\))$", Site.__doc__, re.M):
        assert isinstance(eval(example), Site)


@pytest.mark.parametrize(
    ("site", "reason"),
    [
        (Site("resid_pre", 2), "layers 0 to 1"),
        (Site("z", 0, head=2), "heads 0 to 1"),
        (Site("post", 1, neurons=(20,)), "neurons 0 to 19"),
        (Site("mlp_out", 0), "lacks an MLP"),
        (Site("post", 0), "lacks an MLP"),
        (Site("resid_pre", 0, "sum"), "no position 'sum' here; known: plus, lhs"),
        (Site("resid_pre", 0, 12), "not within 0 to 11"),
        (Site("resid_pre", 1, subspace=torch.eye(4)), "basis has 4 rows, expected 16"),
        (Site("resid_mid", 1, "lhs"), "only the read positions"),
        (Site("q", 1, "rhs"), "only the read positions"),
        (Site("pattern", 1, "lhs", key=0), "only the read positions"),
        (Site("mlp_out", 1, 0), "only the read positions"),
        (Site("q", 0, 0), "attends to itself alone"),
        (Site("pattern", 0, 0), "attends to itself alone"),
        (Site("pattern", 0, "lhs", key="rhs"), "attends to a later position"),
    ],
)
def test_sites_that_cannot_matter_are_refused(config, pair, site, reason):
    with pytest.raises(InputError, match=reason):
        locate(site, config, pair[0])


def test_places_after_the_read_position_cannot_matter():
    config = ModelConfig(5, 5, 6, n_layers=2, d_model=4, d_head=4, d_mlp=(4, 4))
    batch = Batch(np.zeros((2, 6), int), np.zeros(2, int), 3)
    with pytest.raises(InputError, match="after the last read position 3"):
        locate(Site("resid_pre", 0, 4), config, batch)
    two_way = ModelConfig(5, 5, 6, n_layers=2, d_model=4, d_head=4, d_mlp=(4, 4), causal=False)
    assert locate(Site("resid_pre", 0, 4), two_way, batch).inert is None


@pytest.mark.parametrize(
    ("options", "hook", "between_runs", "reason"),
    [
        ({"attn_mix": 0.0}, "q", False, "does not depend on scores"),
        ({"attn_mix": 0.0}, "pattern", True, "same in every run"),
        ({"attn_mix": 0.0}, "pattern", False, None),
        ({"attn_content": False, "positions": "relative"}, "pattern", True, "positions alone"),
        ({"attn_content": False, "positions": "relative"}, "pattern", False, None),
    ],
)
def test_what_is_alike_in_every_run_cannot_be_patched(options, hook, between_runs, reason):
    config = ModelConfig(5, 5, 4, **options)
    found = why_inert(config, hook, 1, None, None, reads=(3,), between_runs=between_runs)
    assert found is None if reason is None else reason in found


def test_with_a_sink_even_the_first_position_has_a_choice():
    at = np.array([[0]])
    for sink, inert in ((False, True), (True, False)):
        config = ModelConfig(5, 5, 4, attn_sink=sink)
        why = why_inert(config, "q", 0, at, None, reads=(3,), between_runs=True)
        assert (why is not None) == inert


def test_names_are_found_row_by_row(config, routes):
    batch = routes[0]["both"]
    found = locate(Site("resid_pre", 1, ("value of lhs", "equals")), config, batch)
    want = np.stack([batch.positions["value of lhs"], batch.positions["equals"]], 1)
    assert found.at(torch.arange(20)).tolist() == want.tolist()


def test_rows_without_a_place_are_refused_or_left_out(config, routes):
    mixed = routes[0]["direct"], routes[0]["both"]
    from mechint_arith.tasks.batch import concatenate

    batch = concatenate(list(mixed))
    site = Site("resid_pre", 0, "variable of lhs")
    with pytest.raises(InputError, match="20 of 40 rows lack this position"):
        find(site, config, batch)
    found = find(site, config, batch, partly=True)
    assert found.present.tolist() == [False] * 20 + [True] * 20
    with pytest.raises(InputError, match="no row of the batch"):
        find(site, config, mixed[0], partly=True)


def test_take_and_put_are_inverse_on_every_kind_of_site(config, pair):
    generator = torch.Generator().manual_seed(0)
    rows = torch.tensor([1, 4, 4])
    basis = torch.linalg.qr(torch.randn(16, 3, generator=generator))[0]
    shapes = {
        Site("resid_pre", 1, ("lhs", "value of rhs")): (3, 12, 16),
        Site("v", 1, "value of lhs", head=1): (3, 12, 2, 6),
        Site("v", 1): (3, 12, 2, 6),
        Site("v", 1, head=1): (3, 12, 2, 6),
        Site("z", 1, "equals", head=0): (3, 1, 2, 6),
        Site("pattern", 0, "equals", head=1, key=("lhs", "value of rhs")): (3, 2, 12, 12),
        Site("pattern", 1, "equals"): (3, 2, 1, 12),
        Site("pattern", 0, key="lhs", head=0): (3, 2, 12, 12),
        Site("post", 1, "equals", neurons=(2, 7)): (3, 1, 20),
        Site("post", 1, neurons=(2, 7)): (3, 1, 20),
    }
    for site, shape in shapes.items():
        found = find(site, config, pair[0])
        columns = torch.tensor([11]) if 1 in shape[1:3] else None
        value = torch.randn(shape, generator=generator)
        taken = found.take(value, rows, columns)
        new = torch.randn(taken.shape, generator=generator)
        after = found.put(value.clone(), rows, columns, new)
        torch.testing.assert_close(found.take(after, rows, columns), new)
        back = found.put(after, rows, columns, taken)
        torch.testing.assert_close(back, value)
        table = torch.randn((12, *shape[1:]), generator=generator)
        aligned = found.take(table[rows], rows, columns)
        torch.testing.assert_close(found.take(table, rows, columns, table=True), aligned)
    found = find(Site("resid_pre", 1, "lhs", subspace=basis), config, pair[0])
    value = torch.randn((3, 12, 16), generator=generator)
    new = torch.randn((3, 1, 16), generator=generator)
    after = found.take(found.put(value.clone(), rows, None, new), rows, None)
    torch.testing.assert_close(after @ basis, new @ basis)
    rest = torch.eye(16) - basis @ basis.T
    torch.testing.assert_close(after @ rest, found.take(value, rows, None) @ rest)


def test_positions_are_named_where_all_rows_agree(pair):
    names = position_names(list(pair))
    assert names[0] == "0"
    assert names[-4:] == ("plus", "lhs", "rhs", "equals")


def test_a_site_reads_like_a_sentence():
    site = Site("pattern", 0, "equals", head=1, key=("lhs", "rhs"))
    assert str(site) == "pattern 0 head 1 at equals to lhs, rhs"
    assert Site("post", 1, neurons=tuple(range(9))).hook_name == "blocks.1.mlp.hook_post"
