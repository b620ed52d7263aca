"""Templates of logs against Drain3, on thirty generated systems of 2,000 lines.

A system has 6 to 120 templates of 2 to 14 words and values (numbers, addresses, paths, names), of
Zipf frequencies; a quarter of them are siblings: another one with one word exchanged. Constants
were chosen on the even systems. Ten more write lines as known systems do (`log_systems`).
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import click
import numpy as np
from sklearn.metrics import adjusted_rand_score

from benchmarks.log_systems import SYSTEMS, known_system
from streamddcrp import TextStream


def words(text: str) -> list[str]:
    """Words between blanks."""
    return text.split()


VERBS = words(
    """started stopped opened closed accepted rejected failed received sent created deleted
allocated released mounted unmounted registered scheduled completed timed-out denied
reset updated loaded flushed committed aborted resumed suspended verified expired"""
)
NOUNS = words(
    """connection session block packet request task job node container volume disk cache thread
process module driver interrupt sensor fan link port channel transaction snapshot
replica heartbeat lease token certificate queue buffer daemon service user group table
index region shard"""
)
GLUE = words(
    """from to for on in at by of with after before during while is was has not been the a via
due"""
)
STATES = words(
    """invalid unexpected new old stale remote local primary secondary fatal critical minor
temporary corrupt missing unknown available"""
)
LEVELS = words("""INFO WARN ERROR DEBUG kernel: sshd: dfs.DataNode: mpi: cron: nova.compute:""")
USERS = words("""alice bob root admin hadoop postgres www-data nobody guest carol dave erin""")
KINDS = [*["int"] * 5, "ip", "ipport", "hex", "id", "id", "path", "user", "dur", "uuid", "word"]
FIELDS = ("size", "pid", "uid", "rc", "port")


def _value(r: random.Random, kind: str) -> str:
    ip = ".".join(str(r.randrange(256)) for _ in range(4))
    path = [r.choice(NOUNS) + (str(r.randrange(50)) if r.random() < 0.7 else "") for _ in range(3)]
    return {
        "int": str(r.randrange(10 ** r.randrange(1, 7))),
        "ip": ip,
        "ipport": f"{ip}:{r.randrange(1024, 65536)}",
        "hex": hex(r.randrange(1 << 32)),
        "id": r.choice(("blk_", "job_", "task-", "node")) + str(r.randrange(10**6)),
        "path": "/" + "/".join(path[: r.randrange(1, 4)]),
        "user": r.choice(USERS),
        "dur": f"{r.randrange(1000)}{r.choice(('ms', 's', 'us'))}",
        "uuid": f"{r.randrange(1 << 32):08x}-{r.randrange(1 << 16):04x}",
        "word": r.choice(NOUNS),
    }[kind]


def _template(r: random.Random, variable: float, *, level: bool) -> list[Any]:
    """Words, and pairs of what stands before a value and its kind."""
    out: list[Any] = [r.choice(LEVELS)] if level else []
    for i in range(r.randrange(2, 5) if r.random() < 0.25 else r.randrange(4, 14)):
        if i and r.random() < variable:
            before = r.choice(("", "", "", r.choice(NOUNS) + "=", r.choice(FIELDS) + "=", "("))
            out.append((before, r.choice(KINDS)))
        else:
            out.append(r.choice(r.choice((VERBS, NOUNS, NOUNS, GLUE, STATES))))
    return out


def system(seed: int, siblings: float = 0.25, n: int = 2_000) -> tuple[list[str], list[int]]:
    """Lines of a system, and their templates."""
    r = random.Random(seed)
    variable, level, K = (
        r.choice((0.1, 0.2, 0.3, 0.4)),
        r.random() < 0.5,
        r.choice((6, 12, 25, 50, 120)),
    )
    made: list[list[Any]] = []
    while len(made) < K:
        new = _template(r, variable, level=level)
        if made and r.random() < siblings:
            new = list(r.choice(made))
            i = r.choice([i for i, x in enumerate(new) if isinstance(x, str)])
            new[i] = r.choice(next((of for of in (VERBS, NOUNS, STATES) if new[i] in of), STATES))
        if new not in made:
            made.append(new)
    power = r.choice((0.8, 1.2, 1.6))
    y = r.choices(range(K), [(i + 1.0) ** -power for i in range(K)], k=n)
    lines = [
        " ".join(x if isinstance(x, str) else x[0] + _value(r, x[1]) for x in made[k]) for k in y
    ]
    return lines, y


def ours(lines: Sequence[str]) -> Any:
    """Final labels."""
    model = TextStream(scale="template")
    model.learn_many(lines)
    return model.final_labels(window=True)["label"].to_pylist()


def drain(lines: Sequence[str]) -> Any:
    """Labels of Drain3, with its defaults."""
    from drain3 import TemplateMiner  # noqa: PLC0415 -- a peer that need not be installed
    from drain3.template_miner_config import TemplateMinerConfig  # noqa: PLC0415

    miner = TemplateMiner(config=TemplateMinerConfig())
    return [miner.add_log_message(line)["cluster_id"] for line in lines]


def grouping(y: Sequence[int], labels: Sequence[int]) -> float:
    """Grouping accuracy: part of the lines whose group is that of all lines of its template."""
    whole, found = Counter(y), Counter(labels)
    both = Counter(zip(y, labels, strict=True))
    return sum(n for (k, c), n in both.items() if n == whole[k] == found[c]) / len(y)


@click.command("logs")
@click.option("--even", is_flag=True, help="The systems on which constants were chosen.")
def main(even: bool) -> None:
    """Templates of logs: ARI, grouping accuracy and lines a CPU second, beside Drain3."""
    ours(["one 1", "two"])
    seeds = range(0 if even else 1, 20, 2)
    streams = {f"siblings {part}": [system(seed, part) for seed in seeds] for part in (0.25, 0.0)}
    streams["known"] = [known_system(name) for name in list(SYSTEMS)[0 if even else 1 :: 2]]
    for name, systems in streams.items():
        for find in (ours, drain):
            index, right, start = [], [], time.process_time()
            for lines, y in systems:
                try:
                    labels = find(lines)
                except ImportError:
                    click.echo("Drain3: not installed")
                    break
                index.append(adjusted_rand_score(y, labels))
                right.append(grouping(y, labels))
            else:
                speed = 2_000 * len(systems) / (time.process_time() - start)
                click.echo(
                    f"{name}: {find.__name__} ARI {np.mean(index):.3f} ({min(index):.3f} to "
                    f"{max(index):.3f}), grouping {np.mean(right):.3f}, {speed:,.0f} lines/s"
                )
