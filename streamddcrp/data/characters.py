"""The role of each character in a text, as tables for the kernels that read words."""

import unicodedata
from functools import cache

import numpy as np
from numpy.typing import NDArray

from streamddcrp.data.kernels.characters import ALONE, BEGINS, IGNORED, JOINS, MARK, UNSPACED
from streamddcrp.data.kernels.words import OPENS
from streamddcrp.typing import IntArray

_EMOJI = (range(0x2600, 0x27C0), range(0x2B50, 0x2B56), range(0x1F000, 0x1FB00))
_POINTS = 1 << 17  # characters of the table; beyond are ideographs and unused ones
_UNSPACED = (
    (0x0E00, 0x0F00), (0x1000, 0x10A0), (0x1780, 0x1800), (0x3005, 0x3008), (0x3021, 0x3030),
    (0x3031, 0x3130), (0x31A0, 0x3200), (0x3400, 0x4DC0), (0x4E00, 0xA000), (0xF900, 0xFB00),
    (0xFF66, 0xFFA0),
)  # fmt: skip


@cache
def characters() -> NDArray[np.int32]:
    """Return each character's role and its lower-case form, for the kernels."""
    kinds = np.zeros(_POINTS, np.int32)
    for point in range(_POINTS):
        character = chr(point)
        if character.isalnum():
            kinds[point] = _lower(character) | JOINS | BEGINS
        elif not character.isascii():
            category = unicodedata.category(character)
            if category[0] == "M":
                kinds[point] = point | JOINS | MARK
            elif category == "Cf":
                kinds[point] = IGNORED
            elif category == "So" and any(point in part for part in _EMOJI):
                kinds[point] = point | ALONE
    for character in "+#'":
        kinds[ord(character)] = ord(character) | JOINS
    kinds[0x2019] = ord("'") | JOINS  # the typographic apostrophe
    kinds[0x200B] = 0  # the zero-width space
    for start, stop in _UNSPACED:
        kinds[start:stop] |= np.where(kinds[start:stop] & BEGINS, UNSPACED, 0).astype(np.int32)
    return kinds


@cache
def single() -> NDArray[np.uint8]:
    """Return the role of each single byte."""
    kinds, out = characters()[:128], np.full(256, OPENS, np.uint8)
    out[:128] = np.where(kinds & JOINS, kinds & 0x7F, 0) | np.where(kinds & BEGINS, OPENS, 0)
    return out


@cache
def compositions() -> tuple[IntArray, NDArray[np.int32]]:
    """Return the sorted lower-case pairs of letter and mark, and the letters they form."""
    found = {ord("i") << 21 | 0x307: ord("i")}
    for point in range(_POINTS):
        parts = unicodedata.decomposition(chr(point)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            letter, mark = (chr(int(part, 16)) for part in parts)
            if unicodedata.normalize("NFC", letter + mark) == chr(point) and letter.isalnum():
                found.setdefault(_lower(letter) << 21 | ord(mark), _lower(chr(point)))
    keys = sorted(found)
    return np.array(keys, np.int64), np.array([found[key] for key in keys], np.int32)


def _lower(character: str) -> int:
    """Return a letter's lower-case form (σ for ς, i for İ), if it is one character."""
    if character == "\u0130":
        return ord("i")
    for form in (unicodedata.normalize("NFKC", character).casefold(), character.lower()):
        if len(form) == 1 and form.isalnum():
            return ord(form)
    return ord(character)
