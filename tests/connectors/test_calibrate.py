"""``streamddcrp calibrate``: what it prints, draws, and ends with."""

import pytest
from click.testing import CliRunner

from streamddcrp_connectors.cli import main

OPTIONS = """
model = "sample_ddcrp"
likelihood = ["normal_gamma", 0.0, 0.1, 4.0, 3.0]
decay = ["exponential", 3.0]
alpha = {}
"""
FEW = ["--simulations", "60", "--rows", "15"]


def run(*arguments):
    return CliRunner().invoke(main, ["calibrate", *map(str, arguments), *FEW])


def test_exit_codes_and_picture(tmp_path):
    right, wrong, picture = (tmp_path / name for name in ("right.toml", "wrong.toml", "p.png"))
    right.write_text(OPTIONS.format(0.8))
    wrong.write_text(OPTIONS.format(3.0))
    found = run(right, "--picture", picture)
    assert found.exit_code == 0, found.output
    assert "60 simulations: right" in found.output
    assert picture.read_bytes().startswith(b"\x89PNG")
    found = run(right, "--truth", wrong)
    assert found.exit_code == 1
    assert "60 simulations: wrong" in found.output


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("model = 'oracle'", "model must be one of DDCRPSampler, sample_ddcrp"),
        ("model = 'sample_ddcrp'\nsweeps = 3", "unknown option 'sweeps'"),
        ("model = 'ddcrp'", "likelihood: rows are drawn from its prior"),
    ],
)
def test_refusals(tmp_path, options, said):
    (tmp_path / "o.toml").write_text(options)
    found = run(tmp_path / "o.toml")
    assert found.exit_code == 2
    assert said in found.output
