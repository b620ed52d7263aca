"""Links of the pages lead to files and headings, and files that they name exist."""

import re

import pytest

from tests.conftest import REPOSITORY

NAMES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md")
DOCS = REPOSITORY / "docs"
NOTES = REPOSITORY / "research" / "notes"
SITE = [*DOCS.glob("*.md"), *DOCS.glob("math/*.md"), *DOCS.glob("tasks/*.md")]
PAGES = sorted([*SITE, *NOTES.glob("*.md"), *(REPOSITORY / name for name in NAMES)])
FENCE = re.compile(r"^(`{3,}|:{3,}).*?^\1[`:]*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^()\s]+)\)")
NAMED = re.compile(
    r"`((?:benchmarks|connectors|docs|examples|research|streamddcrp|tests)/[\w./-]+)`"
)
MADE = ("docs/_build", "docs/api", "docs/tutorials")  # by `make docs`
each = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
ANSWERS = {  # question: the clicks from the README to its answer, and words of it
    "Which model do I need?": ("docs/which-model.md", "| you have | you want | use |"),
    "Which regimes are there, and when?": (
        "docs/tasks/index.md",
        "regimes.md",
        "when the stream entered",
    ),
    "How do I get one alarm a day?": ("docs/tasks/index.md", "alarms.md", 'Alarm(per="day")'),
    "Which column made the alarm?": ("docs/reading-the-outputs.md", "why.md", "explain_one"),
    "Which regimes are planned or faults?": ("docs/reading-the-outputs.md", "model.mark(3,"),
    "Why are there too many regimes?": ("docs/tuning.md", "one regime has several ids"),
    "Which story was the biggest?": ("docs/tasks/index.md", "headlines.md", "biggest"),
    "How do I follow a thousand machines?": ("docs/keyed.md", "memory_limit"),
    "Can it read my CSV file?": ("docs/first-steps.md", "faq.md", "decimal commas"),
    "How do I read from Kafka?": ("docs/live.md", "kafka://"),
    "Is anything lost if it is killed?": ("docs/promises.md", "kill"),
    "How fast is it?": ("docs/measured.md", "µs a row"),
}


def anchors(path):
    """Return the anchors of a page's headings, as MyST and Git hosts make them."""
    found = set()
    for heading in re.findall(r"^#{1,3} (.+)$", FENCE.sub("", path.read_text()), re.MULTILINE):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-")
        n = 0
        while (f"{slug}-{n}" if n else slug) in found:
            n += 1
        found.add(f"{slug}-{n}" if n else slug)
    return found


def broken(page):
    """Return the links of a page that lead nowhere."""
    found = []
    for link in LINK.findall(FENCE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            found.append(link)
    return found


@each
def test_links_lead_somewhere(page):
    assert broken(page) == []


@each
def test_named_files_are_there(page):
    if page.name == "CHANGELOG.md" or page.parent == NOTES:
        pytest.skip("names files of earlier versions")
    named = [name for name in NAMED.findall(page.read_text()) if not name.startswith(MADE)]
    assert [name for name in named if not (REPOSITORY / name).exists()] == []


@pytest.mark.parametrize("question", ANSWERS)
def test_answers_are_within_two_clicks_of_the_readme(question):
    *clicks, words = ANSWERS[question]
    page = REPOSITORY / "README.md"
    for link in clicks:
        assert link in {name.partition("#")[0] for name in LINK.findall(page.read_text())}
        page = page.parent / link
    assert words in page.read_text()


def test_every_page_is_in_a_table_of_contents():
    listed = set()
    for page in SITE:
        trees = re.findall(r"^```\{toctree\}(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
        lines = {line.strip() for tree in trees for line in tree.splitlines() if line.strip()}
        listed |= {page.parent / f"{line}.md" for line in lines}
    assert set(SITE) - {DOCS / "index.md"} <= listed


def test_broken_links_are_found(tmp_path):
    (tmp_path / "other.md").write_text("# A heading, here\n\n## Twice\n\n## Twice\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](other.md#a-heading-here) [b](other.md#twice-1) [c](https://example.org)\n"
        "[d](gone.md) [e](other.md#gone) [f](#gone)\n"
    )
    assert broken(page) == ["gone.md", "other.md#gone", "#gone"]


def test_the_page_of_the_command_line_has_every_command():
    from streamddcrp_connectors.cli import main

    page = (DOCS / "command-line.md").read_text()
    listed = re.findall(r":prog: streamddcrp (\S+)", page)
    commands = {name: main.get_command(None, name) for name in main.list_commands(None)}
    assert sorted(listed) == sorted(name for name, found in commands.items() if not found.hidden)
