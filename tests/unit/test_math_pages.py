"""Derivations that sources cite exist, page and equation, and equations are numbered in order."""

import re

import pytest

from tests.conftest import REPOSITORY

PAGES = {path.name: path for path in (REPOSITORY / "docs" / "math").glob("*.md")}
SOURCES = [
    path
    for folder in ("streamddcrp", "connectors", "research", "tests/oracles")
    for path in sorted((REPOSITORY / folder).rglob("*.py"))
]
NUMBER = r"\((\d+[a-z]?)\)"
CITED = re.compile(rf"docs/math/([\w-]+\.md)((?:(?:,? and |, | to | ){NUMBER})*)")
NAMED = re.compile(r"\b([\w-]+\.md)\b")


def equations(page):
    return re.findall(r"\\tag\{(\w+)\}", page.read_text(encoding="utf-8"))


def wrong(text, pages=PAGES):
    """List the cited pages and equations that do not exist."""
    found = []
    for name, numbers in ((m[1], re.findall(NUMBER, m[2])) for m in CITED.finditer(text)):
        known = equations(pages[name]) if name in pages else None
        if known is None:
            found.append(name)
        else:
            found += [f"{name} ({number})" for number in numbers if number not in known]
    return found


def test_cited_equations_exist():
    texts = {path: path.read_text(encoding="utf-8") for path in SOURCES}
    found = {path.name: wrong(re.sub(r"\n\s*", " ", text)) for path, text in texts.items()}
    assert {name: missing for name, missing in found.items() if missing} == {}
    assert sum(len(CITED.findall(text)) for text in texts.values()) > 40


def test_no_source_cites_a_page_that_is_not_here():
    """Any name of a Markdown page, wherever the repository keeps it."""
    here = {path.name for path in REPOSITORY.rglob("*.md") if ".venv" not in path.parts}
    named = {
        (path.name, name)
        for path in SOURCES
        if "research" not in path.parts
        for name in NAMED.findall(path.read_text(encoding="utf-8"))
    }
    assert {pair for pair in named if pair[1] not in here} == set()


@pytest.mark.parametrize("name", sorted(PAGES))
def test_equations_are_numbered_in_order(name):
    tags = equations(PAGES[name])
    numbers = [int(re.sub(r"\D", "", tag)) for tag in tags]
    assert numbers == sorted(numbers)
    assert len(set(tags)) == len(tags)


def test_what_is_missing_is_found(tmp_path):
    (page := tmp_path / "a.md").write_text(r"$$x \tag{1}$$ $$y \tag{2a}$$", encoding="utf-8")
    text = "docs/math/a.md (1), (2a) and docs/math/a.md (3); docs/math/gone.md (1)"
    assert wrong(text, {"a.md": page}) == ["a.md (3)", "gone.md"]
