"""Decompositions of the logits: they sum to the logits, whatever the model."""

import numpy as np
import pytest
import torch

from mechint_arith.circuits.attribution import (
    PARTS,
    direct_attribution,
    direct_logits,
    logit_lens,
    logits_so_far,
)
from mechint_arith.errors import InputError
from mechint_arith.metrics import answer_logit, mean_margin
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.init import initial_weights
from mechint_arith.models.transformer import Transformer
from mechint_arith.tasks.batch import Batch

KINDS = {
    "two layers": {"d_mlp": (6, 8)},
    "no first MLP": {"d_mlp": (0, 8), "embed_norm": True},
    "biases and norm": {
        "d_mlp": (6, 8),
        "attn_bias": True,
        "mlp_bias": True,
        "unembed_bias": True,
        "norm": "rms",
    },
    "one layer": {"n_layers": 1, "d_mlp": (6,), "positions": "relative"},
    "rotary": {"d_mlp": (6, 8), "positions": "rotary"},
}


def model_of(kind, dtype=torch.float64):
    config = ModelConfig(13, 7, 6, n_heads=2, d_model=10, d_head=4, **KINDS[kind])
    generator = torch.Generator().manual_seed(0)
    shapes = initial_weights(config, 0)
    weights = {
        k: torch.randn(w.shape, generator=generator, dtype=dtype) * 0.5 for k, w in shapes.items()
    }
    return Transformer(config, weights).eval()


def batches():
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, 13, (9, 6))
    factors = {"a": np.arange(9) % 3, "b": np.arange(9) // 3}
    yield Batch(tokens, rng.integers(0, 7, 9), 5, {}, factors)
    yield Batch(tokens, rng.integers(0, 7, (9, 2)), 3, {}, {})


@pytest.mark.parametrize("by", PARTS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_parts_sum_to_the_logits_and_to_every_linear_metric(kind, by):
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-4)):
        model = model_of(kind, dtype)
        for batch in batches():
            y = torch.from_numpy(batch.labels.reshape(9, -1))
            with torch.no_grad():
                logits = model(torch.from_numpy(batch.tokens))
                logits = logits[:, batch.read : batch.read + y.shape[1]]
            terms = direct_logits(model, batch, by=by)
            torch.testing.assert_close(terms.total, logits, rtol=tolerance, atol=tolerance)
            for name, metric in (("mean margin", mean_margin), ("answer logit", answer_logit)):
                found = direct_attribution(model, batch, name, by=by)
                assert found.names == terms.names
                whole = metric(logits, y).double().mean(1)
                np.testing.assert_allclose(found.values.sum(0), whole, atol=10 * tolerance)
                each = metric(terms.values, y.expand(len(terms.names), -1, -1)).double().mean(-1)
                if name == "answer logit":
                    np.testing.assert_allclose(found.values, each, atol=10 * tolerance)


@pytest.mark.parametrize("kind", KINDS)
def test_the_lens_ends_at_the_logits_and_its_steps_sum_to_them(kind):
    model = model_of(kind)
    for batch in batches():
        n = batch.labels.reshape(9, -1).shape[1]
        with torch.no_grad():
            logits = model(torch.from_numpy(batch.tokens))[:, batch.read : batch.read + n]
            embedded = model.unembed(
                model.read(model(torch.from_numpy(batch.tokens), stop_at_layer=0))
            )
        lens = logits_so_far(model, batch)
        torch.testing.assert_close(lens.values[-1], logits, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(lens.of("embedding"), embedded[:, batch.read : batch.read + n])
        torch.testing.assert_close(logit_lens(model, batch).total, logits, rtol=1e-12, atol=1e-12)


def test_finer_parts_sum_to_coarser_ones():
    model = model_of("biases and norm")
    batch = next(batches())
    whole, parts = (direct_logits(model, batch, by=by) for by in ("component", "neuron"))
    neurons = [parts.of(name) for name in parts.names if name.startswith("neuron 1.")]
    torch.testing.assert_close(sum(neurons) + parts.of("MLP bias 1"), whole.of("MLP 1"))
    heads = [parts.of(f"head 0.{h}") for h in range(2)]
    torch.testing.assert_close(sum(heads) + parts.of("attention bias 0"), whole.of("attention 0"))


def test_frequencies_of_the_answer_sum_to_each_term():
    from mechint_arith.probes.fourier import basis

    terms = direct_logits(model_of("two layers"), next(batches()))
    fourier = basis(7)
    bases = {f"frequency {k}": fourier.of(k) for k in range(4)}
    found = terms.by_frequency(bases)
    torch.testing.assert_close(sum(part.values for part in found.values()), terms.values)
    spectrum = np.fft.fft(terms.values[2].numpy(), axis=-1)
    spectrum[..., [0, 1, 3, 4, 6]] = 0
    np.testing.assert_allclose(
        found["frequency 2"].values[2], np.fft.ifft(spectrum, axis=-1).real, atol=1e-12
    )
    with pytest.raises(InputError, match="7 orthonormal rows"):
        terms.by_frequency({"one": fourier.of(1)})


def test_tables_and_refusals():
    model, batch = model_of("two layers"), next(batches())
    found = direct_attribution(model, batch, by="head")
    table = found.to_dataframe()
    assert table.term.tolist() == list(found.names)
    np.testing.assert_allclose(table["mean margin"], found.values.mean(1))
    assert (table.low <= table.high).all()
    assert (table.n == 6).all()
    chart = found.figure(title="parts")
    names = [*reversed(chart.layout.yaxis.categoryarray)]
    assert names == list(found.names)
    np.testing.assert_allclose(chart.data[0].x, found.values.mean(1))
    few = found.figure(top=3).data[0]
    assert sorted(np.abs(few.x)) == sorted(np.abs(found.values.mean(1)))[-3:]
    with pytest.raises(InputError, match="linear metric"):
        direct_attribution(model, batch, "loss")
    with pytest.raises(InputError, match="parted by"):
        direct_logits(model, batch, by="token")
    with pytest.raises(InputError, match="no term 'head"):
        direct_logits(model, batch).of("head 0.0")


def test_terms_as_a_table_and_as_a_map():
    model, batch = model_of("two layers"), list(batches())[1]
    terms = direct_logits(model, batch)
    table = terms.to_dataframe()
    assert list(table.columns) == ["term", "example", "read", "answer", "logit"]
    assert len(table) == len(terms.names) * 9 * 2 * 7
    row = table[(table.term == "MLP 1") & (table.example == 4) & (table["read"] == 1)]
    np.testing.assert_array_equal(row.logit, terms.of("MLP 1")[4, 1])
    cells = terms.figure(4, read=1, title="one").data[0]
    np.testing.assert_allclose(cells.z, terms.values[:, 4, 1], atol=1e-6)
    with pytest.raises(InputError, match="no example 9"):
        terms.figure(9)
