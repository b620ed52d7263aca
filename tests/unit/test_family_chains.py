"""No kernel computes the law of another family for a code that it has no branch for."""

import ast
from pathlib import Path

import numpy as np
import pytest

import streamddcrp
from streamddcrp.likelihoods.kernels import families

CORE = Path(streamddcrp.__file__).parent
CODES = {name: value for name, value in vars(families).items() if name.isupper()}
UNKNOWN = max(CODES.values()) + 1


def named_by(test):
    """Return the family that ``code == FAMILY`` or ``family == FAMILY`` names, else None."""
    match test:
        case ast.Compare(
            left=ast.Name(id="code" | "family"),
            ops=[ast.Eq()],
            comparators=[ast.Name(id=name) | ast.Attribute(attr=name)],
        ):
            return name if name in CODES else None
    return None


def chains():
    """Yield place, variable, codes named and last branch of each chain over family codes."""
    for path in sorted(CORE.rglob("kernels/*.py")):
        tree = ast.parse(path.read_text())
        inner = {
            n.orelse[0] for n in ast.walk(tree) if isinstance(n, ast.If) and len(n.orelse) == 1
        }
        for node in ast.walk(tree):
            if not isinstance(node, ast.If) or node in inner or named_by(node.test) is None:
                continue
            rest, named = [node], []
            while (
                len(rest) == 1 and isinstance(branch := rest[0], ast.If) and named_by(branch.test)
            ):
                named.append(named_by(branch.test))
                rest = branch.orelse
            where, variable = f"{path.name}:{node.lineno}", node.test.left.id
            yield where, variable, named, rest


def test_every_family_has_a_code_of_its_own():
    assert len(set(CODES.values())) == len(CODES) >= 7
    assert sorted(CODES.values()) == list(range(len(CODES)))


def test_chains_name_every_family_and_end_loudly():
    found = [chain for chain in chains() if len(chain[2]) > 2]
    assert len(found) >= 8
    for where, variable, named, rest in found:
        # a part of a product is no product itself
        expected = set(CODES) if variable == "family" else set(CODES) - {"PRODUCT"}
        assert set(named) == expected, where
        last = "; ".join(map(ast.unparse, rest))
        assert last.endswith("= math.nan") or "raise " in last, where


def test_short_chains_leave_other_families_alone():
    """One or two families with a short cut of their own: there is no `else` for the others."""
    for where, _, named, rest in chains():
        assert len(named) > 2 or not rest, where


def test_an_unknown_code_is_refused_before_any_array_is_made():
    hyper = np.array([2.0, 1.0, 1.0, 1.0])
    for length in (families.n_stats, families.n_post):
        with pytest.raises(ValueError, match="no branch"):
            length(UNKNOWN, hyper)


def test_an_unknown_code_gives_nan():
    hyper, x, post = np.ones(8), np.ones(1), np.zeros(8)
    stats = np.zeros(8)
    families.add_stats(UNKNOWN, hyper, x, 1.0, stats)
    assert np.isnan(stats[0])
    stats[:] = 0.0
    families.add_rows(UNKNOWN, hyper, x[None], x[:, None], np.ones(1), 0, 1, stats)
    assert np.isnan(stats[0])
    families.posterior(UNKNOWN, hyper, stats, post)
    assert np.isnan(post[0])
    post[:] = 0.0
    assert np.isnan(families.log_predictive(UNKNOWN, hyper, post, x))
    assert np.isnan(families.expected_log_lik(UNKNOWN, hyper, post, x))
    for loop in (families.log_predictives, families.expected_log_liks):
        out = np.zeros(1)
        loop(UNKNOWN, hyper, post[None], x, 1, out)
        assert np.isnan(out[0])
    assert np.isnan(families.log_marginal(UNKNOWN, hyper, stats, post))
    out = np.zeros(1)
    families.expected_log_liks_of_rows(UNKNOWN, hyper, post, x[None], x[:, None], 0, 1, out)
    assert np.isnan(out[0])
    families.natural_parameters(UNKNOWN, hyper, post, out := np.zeros(8))
    assert np.isnan(out[0])
