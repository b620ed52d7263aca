"""Section 4.2 of Caron and Doucet (2009): images of features that switch on and off.

Two hundred 6 x 6 images are sums of four features and noise; which ones may be on, and how often,
changes after 30 and after 50 images. Figure 5 is of the image expected at t, given the truth and
given the images before. The latent images, the noise and the settings are not printed
in the paper; these are those of our specification.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from streamddcrp.models.features.tv_ibp import TimeVaryingIBP
from streamddcrp.plots.figures import STYLE, matplotlib
from streamddcrp.plots.palette import COLOURS
from streamddcrp.typing import FloatArray

WINDOW = 50
LOOKS = (20, 50, 100, 200)  # images before which Figure 5 looks ahead
SHAPES = (
    ((0, 1, 0), (1, 1, 1), (0, 1, 0)),
    ((1, 1, 1), (1, 0, 1), (1, 1, 1)),
    ((1, 0, 0), (1, 1, 0), (1, 1, 1)),
    ((1, 1, 1), (0, 1, 0), (0, 1, 0)),
)


def images(seed: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Draw the images (200, 36), which features they have (200, 4), these (4, 36), and how often.

    The last is the probability of each feature, shape (200, 4).
    """
    squares = np.zeros((4, 6, 6))
    for k, (row, column) in enumerate(((0, 0), (0, 3), (3, 0), (3, 3))):
        squares[k, row : row + 3, column : column + 3] = SHAPES[k]
    Y = squares.reshape(4, 36)
    often = np.zeros((200, 4))
    often[:30], often[30:50], often[50:] = (0.6, 0.5, 0, 0), (0.4, 0.8, 0.4, 0), (0, 0.3, 0.6, 0.6)
    rng = np.random.Generator(np.random.PCG64(seed))
    Z = (rng.random((200, 4)) < often).astype(np.float64)
    return Z @ Y + 0.5 * rng.standard_normal((200, 36)), Z, Y, often


def loadings(features: FloatArray, X: FloatArray) -> FloatArray:
    """Return posterior means (K, D), noise of deviation 0.5 and loadings of deviation 1."""
    precision = features.T @ features + 0.25 * np.eye(features.shape[1])
    return np.asarray(np.linalg.solve(precision, features.T @ X))


def features_of(model: TimeVaryingIBP) -> FloatArray:
    """Which features the images have, (N, K) of 0 and 1, those of at least one image."""
    sets = model.assignments()["features"].to_pylist()
    ids = sorted({i for one in sets for i in one})
    return np.array([[float(i in one) for i in ids] for one in sets])


def matched(
    found: FloatArray, X: FloatArray, Z: FloatArray, Y: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Match found features (N, K) with the true ones by what they look like.

    Returns
    -------
    loading : ndarray of float64, shape (4, 36)
        Posterior means.
    on : ndarray of float64, shape (N, 4)
    accuracy : ndarray of float64, shape (4,)
    """
    loading = loadings(found, X)
    distance = ((loading[:, None] - Y[None]) ** 2).mean(axis=2)
    rows, columns = linear_sum_assignment(distance)
    best, on = np.zeros(Y.shape), np.zeros(Z.shape)
    best[columns], on[:, columns] = loading[rows], found[:, rows]
    return best, on, (on == Z).mean(axis=0)


def share(Z: FloatArray) -> FloatArray:
    """Owners among the last 50 rows over 51 (fewer at the start), for the row after each."""
    total = np.concatenate([np.zeros((1, Z.shape[1])), np.cumsum(Z, axis=0)])
    t = np.arange(1, len(total))
    low = np.maximum(t - WINDOW, 0)
    return np.asarray((total[t] - total[low]) / (t - low + 1)[:, None])


def expected(X: FloatArray, seed: int) -> FloatArray:
    """Expect image t given those before it, for t in `LOOKS`, shape (4, 36); counted from 1.

    The sum of the features, posterior means, times the probability of each by its owners in the
    window, given the assignment of the images before t that is the most probable then.
    """
    model, means, seen = TimeVaryingIBP(warmup=LOOKS[0] - 1, seed=seed), [], 0
    for t in LOOKS:
        model.learn_many(X[seen : t - 1])
        seen = t - 1
        found = features_of(model)
        means.append(share(found)[-1] @ loadings(found, X[:seen]))
    return np.array(means)


def draw_expected(true: FloatArray, ahead: FloatArray, path: Path) -> None:
    """Draw Figure 5: what is expected by who knows the truth, and by the model."""
    plt = matplotlib("pyplot")
    with plt.rc_context(STYLE | {"axes.grid": False}):
        figure, axes = plt.subplots(2, len(LOOKS), figsize=(7.5, 4.2), layout="constrained")
        for k, t in enumerate(LOOKS):
            for ax, image, name in ((axes[0, k], true[k], "true"), (axes[1, k], ahead[k], "ahead")):
                ax.imshow(image.reshape(6, 6), cmap="gray", vmin=0.0, vmax=1.0)
                ax.set(xticks=[], yticks=[], title=f"t = {t}, {name}")
        figure.savefig(path, dpi=130)
        plt.close(figure)


def draw(Y: FloatArray, loading: FloatArray, often: FloatArray, on: FloatArray, Z: FloatArray,
         folder: Path) -> list[Path]:  # fmt: skip
    """Draw the features beside what was found, and the occurrence probabilities."""
    plt = matplotlib("pyplot")
    paths = [folder / "features.png", folder / "occurrence.png"]
    with plt.rc_context(STYLE | {"axes.grid": False}):
        figure, axes = plt.subplots(2, 4, figsize=(7.5, 4.2), layout="constrained")
        for k in range(4):
            for ax, image, name in ((axes[0, k], Y[k], "true"), (axes[1, k], loading[k], "found")):
                ax.imshow(image.reshape(6, 6), cmap="gray", vmin=-0.2, vmax=1.2)
                ax.set(xticks=[], yticks=[], title=f"feature {k + 1}, {name}")
        figure.savefig(paths[0], dpi=130)
        plt.close(figure)
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained", sharey=True)
        panels: list[tuple[Any, FloatArray, str]] = [
            (axes[0], often, "probability that a feature is on"),
            (axes[1], share(Z), f"true owners in the last {WINDOW}"),
            (axes[2], share(on), "the same, as found"),
        ]
        for ax, values, title in panels:
            for k in range(4):  # dashes where lines lie on each other
                ax.plot(
                    values[:, k], drawstyle="steps-post", color=COLOURS[k],
                    linestyle="--" if ax is axes[0] and k % 2 else "-", label=f"feature {k + 1}",
                )  # fmt: skip
            ax.set(title=title, xlabel="image", ylim=(-0.01, 1))
        axes[1].legend(ncols=2, loc="upper right", handlelength=1.2, columnspacing=1.0)
        figure.savefig(paths[1], dpi=130)
        plt.close(figure)
    return paths


def run(folder: Path, seeds: int, first: int) -> Iterator[str]:
    """Do it all: write the figures of the first seed to a folder, yield what is to be read."""
    TimeVaryingIBP(warmup=1).learn_many(np.zeros((1, 36)))  # compiles
    model = TimeVaryingIBP()
    yield (
        f"Prior: alpha {model.alpha:g}, window {model.window}, noise and loadings learned; "
        f"{model.n_particles} particles, {model.moves} rows resampled, one pass over the images.\n"
    )
    yield "| seed | features of 5 images or more | Z accuracy (worst feature) | RMSE of Y | noise | occurrence RMSE | CPU s |"  # noqa: E501
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    paths: list[Path] = []
    errors: list[list[FloatArray]] = []
    for seed in range(first, first + seeds):
        X, Z, Y, often = images(seed)
        model = TimeVaryingIBP(seed=seed)
        begun = time.process_time()
        model.learn_many(X)
        spent = time.process_time() - begun
        found = features_of(model)
        loading, on, accuracy = matched(found, X, Z, Y)
        rmse = np.sqrt(((loading - Y) ** 2).mean(axis=1)).mean()
        off = np.sqrt(((share(on) - share(Z)) ** 2).mean())
        yield (
            f"| {seed} | {(found.sum(axis=0) >= 5).sum()} | {accuracy.mean():.4f} "
            f"({accuracy.min():.3f}) | {rmse:.3f} | {model.noise[0]:.3f} | {off:.3f} "
            f"| {spent:.1f} |"
        )
        true = often[np.array(LOOKS) - 1] @ Y
        ahead = expected(X, seed)
        past = np.array([X[: t - 1].mean(axis=0) for t in LOOKS])
        errors.append([np.sqrt(((mean - true) ** 2).mean(axis=1)) for mean in (ahead, past)])
        if not paths:
            paths = [*draw(Y, loading, often, on, Z, folder), folder / "expected.png"]
            draw_expected(true, ahead, paths[-1])
    yield "\n| error of the image expected at t | " + " | ".join(map(str, LOOKS)) + " |"
    yield "|" + " --- |" * (1 + len(LOOKS))
    for name, error in zip(
        ("this model", "mean of all images before"), np.median(errors, axis=0), strict=True
    ):
        yield f"| {name} | " + " | ".join(f"{value:.3f}" for value in error) + " |"
    yield ""
    for path in paths:
        yield f"Figure: {path}"
