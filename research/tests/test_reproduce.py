"""The experiments of the papers as commands: small versions of them run, and draw."""

import pytest
from click.testing import CliRunner

from research.reproduce import reproduce

pytest.importorskip("matplotlib")


def run(*arguments):
    result = CliRunner().invoke(reproduce, [*map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.output


def test_help_lists_the_experiments():
    out = run("--help")
    for name in ("ddcrp-language", "seqddcrp-gaussians", "seqddcrp-regimes"):
        assert name in out


def test_gaussians(tmp_path):
    out = run("seqddcrp-gaussians", "--out", tmp_path, "--seeds", 1, "--starts", 2)
    rows = [line.split("|") for line in out.splitlines() if line.startswith("| 5 ")]
    truth, ddcrp, crp = (float(cell.split()[0]) for cell in rows[0][2:5])
    # 200 rows, five components of five parameters each: who knows them gains about 12 nats.
    assert truth - 30.0 < ddcrp < truth + 5.0
    assert truth - 30.0 < crp < truth + 5.0
    assert {path.name for path in tmp_path.iterdir()} == {f"figure-{n}.png" for n in (3, 4, 5)}
    last = [
        line.split("|")[-2] for line in out.splitlines() if line.startswith("| R = 5, seqddCRP")
    ]
    assert float(last[0]) == pytest.approx(ddcrp, abs=0.06)  # 30 sweeps are enough there


def test_regimes(tmp_path):
    out = run(
        "seqddcrp-regimes", "--out", tmp_path, "--rows", 100, "--sweeps", 20, "--chains", 1
    )  # fmt: skip
    lines = [line for line in out.splitlines() if line.startswith(("| v", "| G"))]
    scores = [float(line.split("|")[2].split()[0]) for line in lines]
    assert len(scores) == 3
    assert (tmp_path / "figure-2.png").exists()


def test_a_file_in_the_way_of_the_folder_is_named(tmp_path):
    (tmp_path / "taken").write_text("")
    result = CliRunner().invoke(reproduce, ["seqddcrp-regimes", "--out", str(tmp_path / "taken")])
    assert result.exit_code == 2
    assert "taken is a file" in result.output
