"""The words of a text, the slow way: one character after the other, with Python's own strings."""

import unicodedata
from itertools import pairwise

NO_SPACES = (
    (0x0E00, 0x0F00), (0x1000, 0x10A0), (0x1780, 0x1800), (0x3005, 0x3008), (0x3021, 0x3030),
    (0x3031, 0x3130), (0x31A0, 0x3200), (0x3400, 0x4DC0), (0x4E00, 0xA000), (0xF900, 0xFB00),
    (0xFF66, 0xFFA0), (0x20000, 0x32000),
)  # fmt: skip


def words_of(text):
    """Return all words in order, repeated ones too, none cut."""
    words, run, paired = [], [], False  # run: characters with their marks

    def close():
        if run and not paired:
            words.append("".join(run))
        elif len(run) == 1:
            words.append(run[0])
        else:
            words.extend(a + b for a, b in pairwise(run))
        run.clear()

    for character in text:
        point = ord(character)
        begins = (character.isalnum() and point < 1 << 17) or 0x20000 <= point < 0x32000
        mark = unicodedata.category(character)[0] == "M" and point < 1 << 17
        joins = character in "+#'\u2019"
        alone = begins and any(a <= point < b for a, b in NO_SPACES)
        if unicodedata.category(character) == "Cf" and point < 1 << 17 and character != "\u200b":
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
            run[-1] += character
    close()
    return words


def lower(character):
    """Fold case and width where that leaves one letter or digit."""
    if ord(character) >= 1 << 17:
        return character
    for form in unicodedata.normalize("NFKC", character).casefold(), character.lower():
        if len(form) == 1 and form.isalnum():
            return form
    return character
