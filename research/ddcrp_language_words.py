"""The table of the experiment ``ddcrp-language``, in Markdown."""

from collections.abc import Iterable, Sequence

import numpy as np

from streamddcrp.decay import Decay

from .ddcrp_language_numbers import FAMILIES, Numbers

PLACES = (50, 100, 200, 400, 800)
PUBLISHED = """\
Published: Blei and Frazier's slides define the Bayes factor and draw it for Science and the New
York Times, without numbers; Bartunov and Vetrov (section 5.1, 2,246 AP articles, stemmed, logistic
decay) say that mean field converged in one iteration on every document and that its number of
tables is very close to Gibbs sampling's. Neither prints a figure that could stand beside these."""
BASES = {
    "corpus": "the frequencies of the same corpus, as in the papers: optimistic for every model "
    "alike",
    "others": "for each document the frequencies of the others, half a count added to every word",
}


def in_words(numbers: Numbers, source: str, base: str, seconds: float) -> str:
    """Report what was found."""
    corpus = numbers.corpus
    lengths = np.diff(corpus.starts)
    parts = [
        "# Language model of the sequential ddCRP\n",
        f"{source}: {corpus.n_documents:,} documents, {len(corpus.word):,} tokens "
        f"(median {np.median(lengths):,.0f} a document, longest {lengths.max():,}), "
        f"{corpus.n_words:,} words. Lower case, stop words kept, not "
        f"stemmed. Base measure: {BASES[base]}. Everything is exact; {seconds:.0f} s in all.\n",
        PUBLISHED + "\n",
        "## Log Bayes factor against the CRP of the same alpha, nats a document\n",
        *(_surface(numbers, family) for family in FAMILIES),
        "## Largest evidence (empirical Bayes)\n",
        _fits(numbers),
        "\n## Expected number of tables, given the words (before them)\n",
        _growth(numbers),
        "\n## Exact, Gibbs, variational\n",
        _agreement(numbers),
    ]
    return "\n".join(parts)


def _surface(numbers: Numbers, family: str) -> str:
    surface = numbers.surfaces[family]
    mean = surface.log_bayes_factor().mean(axis=0)
    header = [f"{family}, a", *(f"alpha {alpha:g}" for alpha in surface.alphas)]
    rows = [
        [f"{a:g}", *(_signed(value) for value in row)]
        for a, row in zip(numbers.parameters, mean, strict=True)
    ]
    return _markdown(header, rows) + "\n"


def _fits(numbers: Numbers) -> str:
    header = (
        "decay", "best a", "best alpha", "log evidence", "perplexity",
        "log Bayes factor, CRP at the same alpha", "CRP at its own best alpha",
        "documents it favours",
    )  # fmt: skip
    rows = []
    for name, fit in numbers.fits.items():
        crp = name == "none"
        shares = numbers.favoured[name]
        rows.append(
            (
                "none (CRP)" if crp else name,
                "" if crp else f"{parameter_of(fit.decay):.4g}",
                f"{fit.alpha:.4g}",
                f"{fit.log_evidence:,.1f}",
                f"{np.exp(-fit.log_evidence / fit.n_tokens):.1f}",
                "" if crp else _signed(fit.log_bayes_factor_same_alpha),
                "" if crp else _signed(fit.log_bayes_factor),
                "" if crp else f"{100 * shares:.0f} %",
            )
        )
    return _markdown(header, rows) + (
        "\n\nSums over all documents, in nats. The last column counts documents whose evidence is "
        "larger by a nat or more than under the CRP at its own best alpha."
    )


def _growth(numbers: Numbers) -> str:
    longest = min(len(growth.posterior) for growth in numbers.growth.values())
    places = [place for place in PLACES if place <= longest] or [longest]
    header = ["model at its best", *(f"{place} tokens" for place in places)]
    rows = []
    for name, growth in numbers.growth.items():
        cells = [
            f"{growth.posterior[place - 1]:.1f} ({growth.prior[place - 1]:.1f})" for place in places
        ]
        rows.append(["none (CRP)" if name == "none" else name, *cells])
    return _markdown(header, rows)


def _agreement(numbers: Numbers) -> str:
    it = numbers.agreement
    error = float(np.sqrt(it.variance / len(it.draws)))
    rows = [
        ("exact", f"{it.mean:.3f}", f"{np.sqrt(it.variance):.3f}", f"{it.log_evidence:.6f}"),
        (
            f"Gibbs, {len(it.draws):,} draws",
            f"{it.draws.mean():.3f} (standard error {error:.3f})",
            f"{it.draws.std():.3f}",
            "",
        ),
        *(
            (f"mean field, {name}", f"{tables:.3f}", "", f"{bound:.6f}")
            for name, tables, bound in zip(
                ("random start", *(f"sweep {k}" for k in range(1, len(it.bounds)))),
                it.tables,
                it.bounds,
                strict=True,
            )
        ),
    ]
    header = ("way", "expected tables", "standard deviation", "log evidence or bound")
    return (
        f"Document {it.document} ({it.n_tokens} tokens), exponential decay a = "
        f"{parameter_of(it.decay):.4g}, alpha = {it.alpha:.4g}. Given the words the links are "
        "independent, so a sweep of Gibbs sampling is an independent draw.\n\n"
        + _markdown(header, rows)
        + f"\n\nOver all {numbers.corpus.n_documents:,} documents, each from its own random start, "
        f"the bound after one sweep is within {it.worst[1]:.1e} nats of the log evidence "
        f"(at the start: up to {it.worst[0]:,.0f} below), after two within {it.worst[2]:.1e}.\n"
    )


def parameter_of(decay: Decay) -> float:
    """Return a: the scale of an exponential, else the width or location."""
    return decay.location or decay.scale


def _signed(value: float) -> str:
    return f"{value:+,.1f}".replace("-", "\N{MINUS SIGN}")


def _markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [list(header), ["---"] * len(header), *map(list, rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
