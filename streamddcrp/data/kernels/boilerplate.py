"""Boilerplate: words that many texts contain and that say nothing about their other words.

One word in each text, from a link, a publisher's name or a dateline, is enough to merge stories.
Its base measure (1), the share of *stories* that contain it, is far below the share of *texts*, so
each text pays for it in a new story and not in a large one. But a frequent word may also be a
topic. For a word w in a share q of the texts,

    R2 = mean of (P(w | v) - q)^2 / (q (1 - q))

over the occurrences of rarer words v in the texts, is the share of the variance of w's presence
explained by a word of the text: some tenths for the name of a topic, near 0 for boilerplate,
whatever the stories are. P(w | v) is estimated from the n texts with v, and the chance part of its
square, P (1 - P) / (n - 1), is subtracted. Words v that are in most texts with w, while w is in
most of theirs, belong to the same phrase and are excluded. A long text has more informative words,
so the bound on R2 is `LEAST_SAID` divided by the mean number of words. If the other words predict
each other as little, the frequent words are all there is, and nothing is set aside.

The window is checked after 50, 100, 200, … and then every 1,000 texts, over its newest `MOST_READ`
words. Boilerplate is removed from the tables and set aside when texts are read; its surprise is
that of words at their share of all words.
"""

import math

from streamddcrp.compilation import entry, leaf, uncounted
from streamddcrp.numerics import holds, natural

FIRST_LOOK = 50  # texts before boilerplate is looked for
LEAST_PART, LEAST_TEXTS = 0.05, 10  # least share and number of texts with a boilerplate word
LEAST_SAID = 0.2  # least R2 of a normal word, times the words of a text
MOST_WORDS = 32  # words checked
RETURN = 2.0  # factor of its rise, or of the texts' fall, until a word counts again
MOST_ASIDE = 0.75  # of all words, so that texts keep some
LEAST_WITNESS = 4  # texts with a witness v
LEAST_WITNESSES = 50  # occurrences of witnesses
N_OTHERS = 32  # other words to compare with
MOST_READ = 1 << 15
BETWEEN_LOOKS = 1000


@uncounted
def count_texts(words, texts, seen):
    """Count in ``words.mark`` the newest texts with each word; return counted texts and words.

    Texts without words, such as copies of later ones, do not count.
    """
    size, mask = len(texts.start), len(texts.text) - 1
    n, read, age = 0, 0, 0
    while age < min(seen, size - 1) and read < MOST_READ:
        at = (seen - 1 - age) % size
        every = texts.length[at] + texts.aside[at]
        for j in range(every):
            words.mark[texts.text[(texts.start[at] + j) & mask]] += 1
        n, read, age = n + (every > 0), read + every, age + 1
    return n, read


@uncounted
def count_texts_with(words, texts, seen, n, w):
    """Count in ``words.listed``, which is zero, the texts with each word and ``w``."""
    text, mask, at = texts.text, len(texts.text) - 1, seen % len(texts.start)
    while n > 0:
        at = (at if at > 0 else len(texts.start)) - 1
        first, every = texts.start[at] & mask, texts.length[at] + texts.aside[at]
        n -= every > 0
        end = min(first + every, len(text))
        if holds(text[first:end], w) or holds(text[: first + every - end], w):
            for i in range(every):
                words.listed[text[natural(first + i & mask)]] += 1


@uncounted
def least_texts(words, n):
    """Return the least number of texts of a word to be checked."""
    least, more = max(LEAST_PART * n, LEAST_TEXTS), True
    while more:
        found = 0
        for w in range(len(words.mark)):
            found += words.mark[w] >= least
        more = found > MOST_WORDS
        least *= 1.25 if more else 1.0
    return least


@uncounted
def said_by(words, texts, seen, n, w, least):
    """Return R2 of a word, or NaN with too few witnesses."""
    here, q = words.mark[w], words.mark[w] / n
    count_texts_with(words, texts, seen, n, w)
    total, witnesses = 0.0, 0
    for v in range(len(words.mark)):
        m, both = words.mark[v], words.listed[v]
        if m < LEAST_WITNESS or m >= least or 2 * both > max(m, here):
            continue
        p = both / m
        total += m * ((p - q) * (p - q) - p * (1.0 - p) / (m - 1.0))
        witnesses += m
    words.listed[:] = 0
    if witnesses < LEAST_WITNESSES:
        return math.nan
    return total / (witnesses * q * (1.0 - q)) if here < n else 0.0


@uncounted
def rest_says(words, texts, seen, n, least):
    """Return the mean R2 of some other words."""
    total, tried = 0.0, 0
    for w in range(len(words.mark)):
        if tried < N_OTHERS and words.mark[w] >= LEAST_WITNESS and words.aside[w] == 0.0:
            said = said_by(words, texts, seen, n, w, least)
            if not math.isnan(said):
                total, tried = total + said, tried + 1
    return total / max(tried, 1)


@uncounted
def choose(words, texts, seen):
    """Find the boilerplate of the newest texts; return its share of all words, and new words.

    ``words.aside`` becomes the share of all words for known boilerplate, 0 where a word counts
    again, and minus the share for new words until the caller has removed them. ``words.mark``
    (zero) and ``listed`` are work space. ``texts`` is a ring: text i of ``seen`` is at i modulo its
    length, with ``length + aside`` words of ``text`` from ``start`` on.
    """
    n, read = count_texts(words, texts, seen)
    part, fresh = 0.0, 0.0
    if n >= FIRST_LOOK and read > 0:
        words.listed[:] = 0
        least, most_said = least_texts(words, n), LEAST_SAID * n / read
        for w in range(len(words.mark)):
            known, share = words.aside[w] > 0.0, words.mark[w] / read
            few = RETURN if known else 1.0
            words.aside[w] = 0.0
            if words.mark[w] * few < least:
                continue
            said = said_by(words, texts, seen, n, w, least)
            if said < most_said * few or (math.isnan(said) and known):
                words.aside[w] = share if known else -share
                part += share
                fresh += 0.0 if known else share
        keep = part <= MOST_ASIDE
        if keep and fresh > 0.0:
            keep = rest_says(words, texts, seen, n, least) >= most_said
        if not keep:
            words.aside[:] = 0.0
            part, fresh = 0.0, 0.0
    words.mark[:] = 0
    return part, fresh


@leaf
def next_look(seen):
    """Return the number of texts until the next check."""
    return seen + min(seen, BETWEEN_LOOKS)


@entry
def choose_words(words, texts, seen):
    """Call `choose` from Python."""
    return choose(words, texts, seen)
