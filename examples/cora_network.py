"""Group scientific papers by their words and their citations: a ddCRP on a graph.

Run: python examples/cora_network.py [FOLDER FOR THE PICTURE]

2,708 papers on machine learning with 5,278 citations and 1,433 words (Cora, with its seven subjects
for comparison). A paper may link to papers it shares a citation with, or to itself; papers that
links connect share one distribution of words. Beside it the same model without the citations, the
CRP. Without the data nothing is drawn.
"""

import os
import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pyarrow.parquet
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import eigsh
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from streamddcrp import Distances, sample_ddcrp
from streamddcrp.likelihoods import DirichletMultinomial
from streamddcrp.plots.palette import COLOURS

SHARED = os.environ.get("STREAMDDCRP_SHARED") or Path(__file__).resolve().parents[2] / "shared/data"
CORA = Path(SHARED) / "cora_planetoid"
SUBJECTS = mpl.colormaps["cividis"](np.linspace(0.0, 1.0, 7))  # not those of tables
GREY = "0.8"
OPTIONS = {"alpha": 1.0, "n_sweeps": 25, "burn_in": 25, "n_chains": 1, "seed": 0, "progress": True}


def papers():
    """Words of the papers (N, 1433), their subjects (N,), citations as a sparse matrix (N, N)."""
    nodes, words, edges = (
        pyarrow.parquet.read_table(CORA / f"{name}.parquet") for name in ("nodes", "words", "edges")
    )
    n = nodes.num_rows
    X = np.zeros((n, 1433))
    X[words["node"].to_numpy(), words["word"].to_numpy()] = 1.0
    i, j = edges["src"].to_numpy(), edges["dst"].to_numpy()
    return X, nodes["label"].to_numpy(), sp.coo_array((np.ones(len(i)), (i, j)), (n, n))


def report(name, samples, subject):
    """Print how well tables and subjects agree, on average over the draws."""
    nmi = np.mean([normalized_mutual_info_score(subject, z) for z in samples.labels])
    ari = np.mean([adjusted_rand_score(subject, z) for z in samples.labels])
    print(f"{name}: {samples.n_tables.mean():.0f} tables, NMI {nmi:.2f}, ARI {ari:.2f}")
    return f"{name} (NMI {nmi:.2f}, ARI {ari:.2f})"


def layout(graph, n_steps=80):
    """Place vertices: neighbours attract, all others repel, from a spectral start."""
    n = graph.shape[0]
    rng = np.random.default_rng(0)
    pattern = ((graph + graph.T) > 0).astype(float)
    degree = pattern.sum(axis=1)
    scale = sp.diags_array(1.0 / np.sqrt(degree))
    _, vectors = eigsh(scale @ pattern @ scale, k=3, which="LA", v0=np.ones(n))
    at = np.argsort(np.argsort(vectors[:, :2], axis=0), axis=0) / n - 0.5
    at = at + 0.01 * rng.standard_normal((n, 2))
    i, j = sp.triu(pattern).nonzero()
    near = 1.0 / np.sqrt(n)
    for step in range(n_steps):
        gap = at[:, None, :] - at[None, :, :]
        square = (gap**2).sum(axis=2) + 1e-6
        push = near**2 * np.einsum("ijk,ij->ik", gap, 1.0 / square)
        pull = (at[j] - at[i]) * (np.linalg.norm(at[j] - at[i], axis=1) / near)[:, None]
        for k in range(2):
            push[:, k] += np.bincount(i, pull[:, k], n) - np.bincount(j, pull[:, k], n)
        push -= 0.3 * at
        length = np.linalg.norm(push, axis=1, keepdims=True)
        at = at + push / np.maximum(length, 1e-12) * np.minimum(
            length, 0.06 * (1 - step / n_steps) + 0.001
        )
    return at


def draw_network(ax, graph, labels):
    """Draw the largest connected part, its eight largest tables in colour."""
    _, part = connected_components(graph, directed=False)
    inside = np.flatnonzero(part == np.bincount(part).argmax())
    graph, labels = graph.tocsr()[inside][:, inside], labels[inside]
    at = layout(graph)
    i, j = graph.nonzero()
    lines = mpl.collections.LineCollection(
        np.stack([at[i], at[j]], axis=1), colors="0.85", linewidths=0.3, zorder=0
    )
    ax.add_collection(lines)
    colour = np.full((len(labels), 3), mpl.colors.to_rgb(GREY))
    names, sizes = np.unique(labels, return_counts=True)
    for rank, k in enumerate(names[np.argsort(-sizes)][:8]):
        colour[labels == k] = mpl.colors.to_rgb(COLOURS[rank])
    ax.scatter(*at.T, s=7, c=colour, linewidths=0)
    ax.set_title("papers and citations; the eight largest tables in colour, the others grey")
    ax.set_axis_off()
    ax.set_aspect("equal")


def draw_tables(ax, labels, subject, title):
    """Draw which subjects the papers of the twelve largest tables have."""
    names, sizes = np.unique(labels, return_counts=True)
    base = np.zeros(min(12, len(names)))
    for s in range(7):
        count = [(subject[labels == k] == s).sum() for k in names[np.argsort(-sizes)][:12]]
        ax.bar(np.arange(1, len(base) + 1), count, bottom=base, color=SUBJECTS[s], label=f"{s + 1}")
        base += count
    ax.set_title(title)
    ax.set_ylabel("papers")
    ax.set_xticks(np.arange(1, 13))


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "demo")
    if not CORA.is_dir():
        print(f"no data at {CORA}; set STREAMDDCRP_SHARED to the folder of data sets")
        return
    folder.mkdir(exist_ok=True)
    X, subject, graph = papers()
    likelihood = DirichletMultinomial(0.1, X.shape[1])
    cited = Distances.by_hops(graph)
    linked = sample_ddcrp(X, likelihood, decay=("window", 1.5), distances=cited, **OPTIONS)
    alone = sample_ddcrp(X, likelihood, decay="none", **OPTIONS)
    titles = report("with citations", linked, subject), report("words alone", alone, subject)

    mpl.use("agg")
    style = {"axes.spines.top": False, "axes.spines.right": False, "axes.titlelocation": "left"}
    with mpl.rc_context(style | {"axes.titlesize": 10, "font.size": 9}):
        figure = plt.figure(figsize=(12, 6.4), layout="constrained")
        network, bars = figure.subfigures(1, 2, width_ratios=[1.25, 1.0])
        draw_network(network.subplots(), graph, linked.labels[-1])
        above, below = bars.subplots(2, 1)
        draw_tables(above, linked.labels[-1], subject, titles[0])
        draw_tables(below, alone.labels[-1], subject, titles[1])
        above.legend(title="subject", frameon=False, ncols=2)
        for mark, colour in zip(above.get_xticklabels(), COLOURS[:8], strict=False):
            mark.set(color=colour, fontweight="bold")  # as in the network
        below.set_xlabel("twelve largest tables of the last draw")
        figure.savefig(folder / "cora-network.png", dpi=110)
    print(f"{folder / 'cora-network.png'}")


if __name__ == "__main__":
    main()
