"""Colours of regimes: distinguishable with any kind of colour vision, and stable by id."""

from collections.abc import Iterable

# The first six are close to those of Okabe and Ito. With full, protan, deutan and tritan vision (as
# simulated by Machado et al. 2009) every two of the twelve are at least 16 apart in CIELAB.
COLOURS = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
    "#931464",
    "#90CB7C",
    "#6A35C8",
    "#7A4A1E",
    "#BA6EFE",
    "#00402C",
)
GREY = "#9A9A9A"

# The same hues for dark backgrounds, in the same order: at least 23 apart, with a contrast of at
# least 3.4 to #14181D.
DARK = (
    "#2369D2",
    "#FFD500",
    "#00A566",
    "#EB891F",
    "#D78AAE",
    "#78DDFF",
    "#B23F96",
    "#BFD179",
    "#7E3EFF",
    "#89671C",
    "#9F9FFF",
    "#ADEBBF",
)


def colours_of(labels: Iterable[int]) -> dict[int, str]:
    """Assign colours to up to twelve labels by id, the next free one on a clash.

    >>> colours_of([0, 12, 3])
    {0: '#0072B2', 3: '#D55E00', 12: '#E69F00'}
    """
    given: dict[int, str] = {}
    free = dict.fromkeys(COLOURS)
    late = []
    for label in sorted(labels):
        colour = COLOURS[label % len(COLOURS)]
        if colour in free:
            given[label] = colour
            del free[colour]
        else:
            late.append(label)
    for label in late:
        start = label % len(COLOURS)
        round_ = COLOURS[start:] + COLOURS[:start]
        given[label] = next(colour for colour in round_ if colour in free)
        del free[given[label]]
    return given


def ink_on(colour: str) -> str:
    """Return near-black or near-white, whichever is readable on a colour.

    >>> ink_on("#E69F00"), ink_on("#0072B2")
    ('#010101', '#FEFEFE')
    """
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#010101" if 0.3 * red + 0.6 * green + 0.1 * blue > 128 else "#FEFEFE"
