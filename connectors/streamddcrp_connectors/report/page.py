"""HTML pages that load no other file."""

import base64
import hashlib
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from functools import cache
from typing import Any

from streamddcrp.errors import import_extra
from streamddcrp.plots.palette import COLOURS, DARK, GREY

_SVG, _LINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_HEX = re.compile(r"#[0-9a-f]{6}", re.IGNORECASE)
# Colours of the pictures, and the variables of style.css that replace them on a page. Those of
# `ink_on` are fixed, since they lie on colours.
_NEUTRAL = {
    "#333333": "ink", "#000000": "ink", "#666666": "soft", "#999999": "axis", "#e8e8e8": "grid",
    "#ffffff": "paper", "#c8d3de": "line", "#bdbdbd": "early",
    "#5a6b7b": "cause", "#262626": "ink", GREY.lower(): "other",
    "#c9cdd1": "rest", "#dde0e3": "rest2",
}  # fmt: skip
_VARIABLES = _NEUTRAL | {colour.lower(): f"c{k}" for k, colour in enumerate(COLOURS)}


def jinja() -> Any:
    """Import Jinja, or say how to install it."""
    return import_extra("jinja2", "pages need Jinja", "plot")


def page_of(template: str, **values: Any) -> str:
    """Fill a template of this package; every value is escaped.

    The page's policy allows only its own script, so no request leaves the machine, whatever the
    data contain.
    """
    environment = _environment()
    script = environment.loader.get_source(environment, "page.js")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page: str = environment.get_template(template).render(
        script=script, digest=digest, colours=COLOURS, dark=DARK, **values
    )
    return page


@cache
def _environment() -> Any:
    jinja2 = jinja()
    return jinja2.Environment(
        loader=jinja2.PackageLoader(__package__),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def picture_of(svg: bytes, described: str, links: Mapping[str, tuple[str, str]]) -> str:
    """Embed a picture in a page: its colours follow the page, its links have names.

    ``svg`` is matplotlib's output with text kept as text. ``described`` is the alternative text.
    ``links`` maps a link to its element id and its name.
    """
    ET.register_namespace("", _SVG)
    ET.register_namespace("xlink", _LINK)
    root = ET.fromstring(svg)
    for name in ("width", "height"):
        root.attrib.pop(name, None)
    for metadata in root.findall(f"{{{_SVG}}}metadata"):
        root.remove(metadata)
    root.attrib |= {"class": "picture", "role": "group", "aria-label": described}
    found: set[str] = set()
    for element in root.iter():
        if style := element.get("style"):
            element.set("style", _HEX.sub(_variable, style))
        href = element.get(f"{{{_LINK}}}href", "")
        if element.tag == f"{{{_SVG}}}a" and href in links:
            number, name = links[href]
            title = ET.Element(f"{{{_SVG}}}title")
            title.text = name
            element.insert(0, title)
            element.set("aria-label", name)
            element.attrib.pop("target", None)  # matplotlib opens another window
            if href in found:
                element.attrib |= {"tabindex": "-1", "aria-hidden": "true"}
            else:
                element.set("id", number)
            found.add(href)
    return ET.tostring(root, encoding="unicode")


def _variable(match: re.Match[str]) -> str:
    name = _VARIABLES.get(match[0].lower())
    return match[0] if name is None else f"var(--{name})"
