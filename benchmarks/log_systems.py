"""Lines as known systems write them: templates from memory, in log_systems.txt.

They stand one a line, from the most frequent on; in braces stand kinds of values. Lines that differ
in nothing but values are of one template, however many tokens a value has.
"""

from __future__ import annotations

import random
from pathlib import Path

SYSTEMS = {
    part.split("]\n")[0].strip("["): part.strip().split("\n")[1:]
    for part in Path(__file__).with_suffix(".txt").read_text().split("\n\n")
}
VALUES = {
    "user": "root admin guest oracle test postgres nagios ftp git pi mysql jenkins ubuntu www-data "
    "alice bob carol",
    "host": "proxy.example.edu www.search.com api.chat.net mail.corp.local cdn.video.tv badhost "
    "lab.univ.fr",
    "app": "com.android.systemui com.tencent.qq com.whatsapp android com.android.phone",
    "bool": "true false",
    "state": "SCREEN_ON SCREEN_OFF TIME_TICK BOOT_COMPLETED",
    "client": "WindowsUpdateAgent SPP external DISM",
    "quorum": "LOOKING FOLLOWING LEADING",
    "day": "Mon Tue Sat",
}
PARTS = ("cache parity error", "data TLB error", "machine check", "store operation", "alignment")


def _value(r: random.Random, kind: str) -> str:
    if kind == "host" and r.random() < 0.5:
        kind = "ip"
    if kind in VALUES:
        return r.choice(VALUES[kind].split())
    several = range(r.randrange(1, 8 if kind == "blocks" else 4))
    return {
        "int": lambda: str(r.randrange(10 ** r.randrange(1, 7))),
        "digit": lambda: str(r.randrange(10)),
        "hex": lambda: f"{r.choice(('0x', ''))}{r.randrange(1 << 31):08x}",
        "ip": lambda: ".".join(str(r.randrange(256)) for _ in range(4)),
        "ips": lambda: " ".join(_value(r, "ip") + ":50010" for _ in several),
        "blocks": lambda: " ".join("blk_" + _value(r, "int") for _ in several),
        "part": lambda: r.choice(PARTS),
        "date": lambda: f"{_value(r, 'day')} Jun {r.randrange(1, 30)} 10:{r.randrange(10, 60)}",
    }[kind]()


class _Drawn(dict[str, str]):
    """Values by kind, drawn anew each time."""

    def __init__(self, r: random.Random) -> None:
        self.r = r

    def __missing__(self, kind: str) -> str:
        return _value(self.r, kind)


def known_system(name: str, n: int = 2_000) -> tuple[list[str], list[int]]:
    """Lines of a system, and their templates."""
    r, templates = random.Random(name), SYSTEMS[name]
    y = r.choices(range(len(templates)), [(i + 1.0) ** -1.2 for i in range(len(templates))], k=n)
    return [templates[k].format_map(_Drawn(r)) for k in y], y
