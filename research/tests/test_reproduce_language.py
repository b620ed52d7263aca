"""``streamddcrp reproduce ddcrp-language``: its numbers, words and pictures, and its refusals."""

import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from research.data import read_documents, shared_file
from research.ddcrp_language_numbers import measure, read_corpus, sample_links
from research.reproduce import reproduce
from streamddcrp.decay import Exponential
from streamddcrp.errors import ConfigError
from streamddcrp.models.language.estimator import link_posterior
from streamddcrp.models.language.fit import evidence_surface
from streamddcrp.plots.figures import matplotlib

FILES = {f"ddcrp-language{end}" for end in (".md", "-bayes-factors.png", "-tables.png")} | {
    "ddcrp-language-agreement.png"
}


class Bar:
    """Count what a progress bar would be told."""

    def __init__(self):
        self.total = self.done = 0

    def reset(self, total):
        self.total = total

    def update(self, n=1):
        self.done += n

    def set_description(self, text):
        assert text


def run(*arguments):
    return CliRunner().invoke(reproduce, ["ddcrp-language", *map(str, arguments)])


@pytest.fixture(scope="module")
def texts():
    """Thirty texts whose words come in bursts."""
    rng = np.random.default_rng(0)
    documents = []
    for _ in range(30):
        words = [f"w{rng.integers(60)}"]
        for _ in range(rng.integers(40, 90)):
            old = rng.random() < 0.5
            back = min(int(rng.geometric(0.15)), len(words))
            words.append(words[-back] if old else f"w{int(60 * rng.random() ** 2)}")
        documents.append(" ".join(words))
    return documents


def test_the_command_tells_and_draws(texts, tmp_path):
    data, out = tmp_path / "mine.txt", tmp_path / "some where" / "out"
    data.write_text("\n\n".join(texts), encoding="utf-8")
    done = run("--data", data, "--out", out, "--parameters", "3,10", "--alphas", "1,5,25")
    assert done.exit_code == 0, done.output
    assert {path.name for path in out.iterdir()} == FILES
    words = (out / "ddcrp-language.md").read_text(encoding="utf-8")
    assert words in done.stdout
    assert "mine.txt: 30 documents" in words
    assert "| exponential, a | alpha 1 | alpha 5 | alpha 25 |" in words
    assert "Published:" in words
    for name in FILES - {"ddcrp-language.md"}:
        assert matplotlib("image").imread(out / name)[..., :3].std() > 0.03
    again = tmp_path / "again"
    run("--data", data, "--out", again, "--parameters", "3,10", "--alphas", "1,5,25")
    for name in FILES - {"ddcrp-language.md"}:  # which tells how long it took
        assert (again / name).read_bytes() == (out / name).read_bytes()


@pytest.mark.parametrize("base", ["corpus", "others"])
def test_the_three_ways_agree(texts, base):
    bar = Bar()
    corpus = read_corpus(texts, base)
    numbers = measure(corpus, (3.0, 10.0), (1.0, 5.0), 0, bar)
    assert bar.done == bar.total == 3 * 2 * 2 + 4
    it = numbers.agreement
    assert it.worst[0] > 10.0  # the random starts are bad ones
    assert np.all(it.worst[1:] < 1e-10)
    assert it.bounds[1] == pytest.approx(it.log_evidence, rel=1e-12)
    assert np.all(it.bounds <= it.log_evidence + 1e-10)
    assert it.tables[1] == pytest.approx(it.mean, rel=1e-12)
    error = np.sqrt(it.variance / len(it.draws))
    assert abs(it.draws.mean() - it.mean) < 4.5 * error
    assert it.probs @ np.arange(it.n_tokens + 1) == pytest.approx(it.mean, rel=1e-12)
    best = numbers.fits["exponential"]
    for surface in numbers.surfaces.values():
        assert surface.crp == pytest.approx(
            evidence_surface(corpus, ["none"], surface.alphas).log_evidence[:, 0]
        )
    assert best.log_evidence >= numbers.surfaces["exponential"].best()[2]
    assert best.log_bayes_factor > 0.0
    mean = np.mean([len(text.split()) for text in texts])
    growth = numbers.growth["exponential"].posterior
    assert np.all(np.diff(growth) > 0.0)
    assert growth[0] == pytest.approx(1.0)
    assert growth[-1] < 2 * mean


def test_frequencies_of_the_other_documents():
    corpus = read_corpus(["aa bb aa", "bb cc", "cc cc cc aa"], "others")
    expected = [1.5, 1.5, 1.5, 1.5, 3.5, 1.5, 1.5, 1.5, 2.5]
    total = np.repeat([6.0, 7.0, 5.0], [3, 2, 4]) + 1.5
    assert corpus.g == pytest.approx(np.array(expected) / total)


def test_articles_in_marks_and_parquet_are_read(tmp_path):
    marked = tmp_path / "ap.txt"
    marked.write_text("<DOC>\n<TEXT>\none two\n\n</TEXT>\n</DOC><DOC><TEXT>three</TEXT></DOC>")
    assert [text.split() for text in read_documents(marked)] == [["one", "two"], ["three"]]
    table = tmp_path / "texts.parquet"
    pq.write_table(pa.table({"text": ["one two", None, " ", "three"]}), table)
    assert read_documents(table) == ["one two", "three"]


def test_what_is_missing_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("STREAMDDCRP_SHARED", str(tmp_path))
    done = run("--out", tmp_path / "out")
    assert done.exit_code == 2
    for part in (str(tmp_path / "ap" / "docs.parquet"), "ap.tgz", "--data FILE", "blank lines"):
        assert part in done.stderr
    assert not (tmp_path / "out").exists()


def test_bad_input_is_refused(tmp_path):
    table, empty, latin = tmp_path / "t.parquet", tmp_path / "e.txt", tmp_path / "l.txt"
    pq.write_table(pa.table({"words": ["one"]}), table)
    empty.write_text("\n\n")
    latin.write_bytes("caf\xe9".encode("latin-1"))
    one = tmp_path / "one.txt"
    one.write_text("one text and no other")
    cases = [
        (["--data", table], "no column 'text' among words"),
        (["--data", empty], "contains no text"),
        (["--data", latin], "not a text in UTF-8"),
        (["--data", one, "--base", "others"], "two documents"),
        (["--data", one, "--out", empty], "is a file"),
        (["--alphas", "1,x"], "list of positive numbers"),
        (["--parameters", "-3"], "list of positive numbers"),
    ]
    for arguments, words in cases:
        done = run("--out", tmp_path / "out", *arguments)
        assert done.exit_code == 2, done.output
        assert words in done.stderr


@pytest.mark.slow
def test_the_ap_articles(tmp_path):
    """75 models over 2,246 documents in far less than five minutes."""
    try:
        articles = shared_file("ap/docs.parquet")
    except ConfigError as missing:
        pytest.skip(str(missing))
    start = time.perf_counter()
    done = run("--data", articles, "--out", tmp_path)
    assert done.exit_code == 0, done.output
    assert time.perf_counter() - start < 300.0
    assert "2,246 documents, 927,560 tokens" in done.stdout  # "U.S." is one


def test_draws_follow_the_posterior():
    """Marginals of 20,000 independent draws within 4.5 standard errors; 12 stored links."""
    words = np.array([0, 1, 0, 0, 1, 2])
    g = np.array([0.5, 0.3, 0.2])[words]
    links = link_posterior(words, g, np.arange(6.0), alpha=0.7, decay=Exponential(2.0))
    draws = sample_links(links, 20_000, np.random.default_rng(1))
    exact = links.toarray()
    for i in range(6):
        share = np.bincount(draws[:, i], minlength=6) / len(draws)
        error = np.sqrt(exact[i] * (1 - exact[i]) / len(draws))
        assert np.all(np.abs(share - exact[i]) <= 4.5 * error)
