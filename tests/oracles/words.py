"""The words of a text, the slow way: one character after the other, with Python's own strings."""

import re
import unicodedata

from tests.oracles.pieces import pairs

NO_SPACES = (
    (0x0E00, 0x0F00), (0x1000, 0x10A0), (0x1780, 0x1800), (0x3005, 0x3008), (0x3021, 0x3030),
    (0x3031, 0x3130), (0x31A0, 0x3200), (0x3400, 0x4DC0), (0x4E00, 0xA000), (0xF900, 0xFB00),
    (0xFF66, 0xFFA0), (0x20000, 0x32000),
)  # fmt: skip
EMOJI = (0x2600, 0x27C0), (0x2B50, 0x2B56), (0x1F000, 0x1FB00)
INSIDE = r"[A-Za-z0-9\u0080-\U0010ffff]"
WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9+#']*(?![\u0080-\U0010ffff])")
REST = r'[^\x00-\x20\x80-\U0010ffff"<>]*'
LINK = re.compile(
    rf"(?:[A-Za-z0-9][A-Za-z0-9+#']*://|www\.|(?:[A-Za-z0-9-]+\.)+[A-Za-z]{{2,24}}/){REST}",
    re.ASCII,
)
WWW = re.compile(rf"www\.{REST}", re.IGNORECASE | re.ASCII)
RETWEET = re.compile(r"rt +@[A-Za-z0-9_]+:?", re.IGNORECASE | re.ASCII)
TICKER = re.compile(r"<[A-Z][A-Z0-9.]{0,9}>|\$[A-Z][A-Z.]{0,10}")
INITIALS = re.compile(
    rf"((?:[A-Za-z]\.){{16}}|(?:[A-Za-z]\.){{1,15}}(?:[A-Za-z](?!\.|{INSIDE}))?)"
    rf"(?:'[sS](?!{INSIDE}))?"
)


def words_of(text, keep=(), cut=pairs, tickers=()):
    """Return all words in order, repeated ones too, none cut.

    ``cut`` makes words of a list of characters of a script without spaces. ``tickers`` are the
    words for the first ticker, the second, and so on, the last of them for all others.
    """
    words, run, paired = [], [], False  # run: characters with their marks

    def close():
        if run and not paired:
            words.append("".join(run))
        elif run:
            words.extend(cut(list(run)))
        run.clear()

    skip = 0
    for i, character in enumerate(text):
        if i < skip:
            continue
        point = ord(character)
        begins = (character.isalnum() and point < 1 << 17) or 0x20000 <= point < 0x32000
        mark = unicodedata.category(character)[0] == "M" and point < 1 << 17
        joins = character in "+#'\u2019"
        alone = begins and any(a <= point < b for a, b in NO_SPACES)
        if character in "$<":
            close()
            skip = 0 if "tickers" in keep else end_of_ticker(text, i)
            if skip:
                words.extend(tickers[:1])
                tickers = tickers[1:] or tickers
            continue
        if run and paired and begins and not alone:
            close()
        if not run and begins and WORD.match(text, i):
            found = None if "links" in keep else LINK.match(text, i) or WWW.match(text, i)
            found = found or (None if "retweets" in keep else RETWEET.match(text, i))
            if not found:
                found = INITIALS.match(text, i)
                if found and sum(map(str.isalpha, found[1])) < 2:
                    found = None
                if found:
                    words.append(found[1].lower().rstrip(".") + ".")
            if found:
                skip = found.end()
                continue
        if unicodedata.category(character) == "Cf" and point < 1 << 17 and character != "\u200b":
            continue
        if unicodedata.category(character) == "So" and any(a <= point < b for a, b in EMOJI):
            close()
            words.append(character)
            continue
        if not (begins or mark or joins) or (
            run and (alone != paired if begins else joins and paired)
        ):
            close()
        if begins and alone:
            paired = True
            run.append(lower(character))
        elif begins or (run and joins):
            paired = paired and bool(run)
            run[:] = ["".join(run) + ("'" if character == "\u2019" else lower(character))]
        elif run and mark:
            run[-1] = composed(run[-1] + character)
    close()
    return words


def end_of_ticker(text, i):
    """Return where a ticker ends that begins at i, or 0."""
    found = TICKER.match(text, i)
    if not found or found[0].endswith(">"):
        return found.end() if found else 0
    name = found[0].rstrip(".")
    good = len(name) <= 9 and not re.match(INSIDE, text[i + len(name) :])
    return i + len(name) if good else 0


def composed(word):
    """Make one letter of the last letter and its mark, if there is one."""
    both = unicodedata.normalize("NFC", word[-2:]) if word[-2:] != "i\u0307" else "i"
    return word[:-2] + both if len(both) == 1 else word


def lower(character):
    """Fold case and width where that leaves one letter or digit."""
    if ord(character) >= 1 << 17:
        return character
    if character == "\u0130":
        return "i"
    for form in unicodedata.normalize("NFKC", character).casefold(), character.lower():
        if len(form) == 1 and form.isalnum():
            return form
    return character
