"""The page for those who see, hear or point otherwise, in a real browser.

Rules of WCAG 2.2 that a program can judge: names (4.1.2), keyboard (2.1.1, 2.1.2), visible focus
(2.4.7), contrast (1.4.3), language (3.1.1), status messages (4.1.3), unique identifiers.
"""

import pytest

from .test_browser import DRAWN, look, until

# The ratio of contrast of WCAG 2.2 of each visible text with the first opaque background behind it
CONTRAST = """(() => {
  const rgb = text => { const n = (text.match(/[\\d.]+/g) || []).map(Number)
    return [n[0], n[1], n[2], n.length > 3 ? n[3] : 1] }
  const light = c => { const [r, g, b] = c.slice(0, 3).map(x => { x /= 255
    return x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4 })
    return 0.2126 * r + 0.7152 * g + 0.0722 * b }
  const behind = x => { for (; x; x = x.parentElement) {
    const c = rgb(getComputedStyle(x).backgroundColor)
    if (c[3] === 1) return c } return [255, 255, 255, 1] }
  const found = []
  for (const x of document.querySelectorAll('body *')) {
    const own = [...x.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())
    if (!own || !x.checkVisibility() || x.classList.contains('unseen') || x.disabled) continue
    if (x.closest('.unseen, canvas, option, [aria-disabled]')) continue
    const style = getComputedStyle(x), a = light(rgb(style.color)), b = light(behind(x))
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)
    const large = parseFloat(style.fontSize) >= 24
    if (ratio < (large ? 3 : 4.5)) found.push([x.outerHTML.slice(0, 80), ratio.toFixed(2)])
  }
  return found })()"""
FOCUSED = """(() => { const x = document.activeElement, s = getComputedStyle(x)
  if (x === document.body) return null
  const all = [...document.querySelectorAll('*')]
  const ring = s.outlineStyle !== 'none' || s.boxShadow !== 'none'
  return [all.indexOf(x), x.id || x.tagName, ring] })()"""
REACHABLE = """(() => { const all = [...document.querySelectorAll('*')]
  return [...document.querySelectorAll('a[href], button, input, select, [tabindex="0"]')]
    .filter(x => x.checkVisibility() && !x.disabled).map(x => all.indexOf(x)) })()"""
NAMELESS = """[...document.querySelectorAll('a, button, input, select, section, [role=img], main')]
  .filter(x => x.checkVisibility() && !(x.ariaLabel || x.title || x.textContent.trim()
    || x.getAttribute('aria-labelledby'))).map(x => x.outerHTML.slice(0, 80))"""


@pytest.fixture(params=["light", "dark"])
def page(request, feeder, visit):
    fed = feeder()
    fed.feed(2500)
    opened = visit(fed.address, color_scheme=request.param)
    until(opened, DRAWN)
    until(opened, "document.querySelectorAll('#regimes tbody').length")
    return opened


def test_the_page_can_be_read_and_used_by_keyboard(page):
    assert look(page, "document.documentElement.lang") == "en"
    assert look(page, NAMELESS) == []
    assert look(page, CONTRAST) == []
    ground = "getComputedStyle(document.body).backgroundColor"
    page.evaluate(f"document.querySelector('#rows').style.color = {ground}")
    assert "rows" in look(page, CONTRAST)[0][0]  # it would be found
    page.evaluate("document.querySelector('#rows').style.color = ''")
    twice = "(() => { const ids = [...document.querySelectorAll('[id]')].map(x => x.id)"
    assert look(page, f"{twice}; return ids.filter((x, i) => ids.indexOf(x) !== i) }})()") == []
    page.keyboard.press("Space")  # paused: the table stands still
    wanted, seen = set(look(page, REACHABLE)), {}
    for _ in range(3 * len(wanted)):
        page.keyboard.press("Tab")
        focused = look(page, FOCUSED)
        if focused is not None:
            seen[focused[0]] = focused
        if wanted <= seen.keys():
            break
    assert wanted <= seen.keys()  # nothing is out of reach, and nothing keeps the focus
    assert [name for _, name, visible in seen.values() if not visible] == []


def test_what_happens_is_said(page):
    """A screen reader hears changes of the connection, and what the keyboard does."""
    regions = "[...document.querySelectorAll('[aria-live], [role=status]')].map(x => x.id)"
    assert {"link", "notice", "spoken"} <= set(look(page, regions))
    described = "document.querySelector('#chart').ariaLabel"
    assert until(page, described, lambda text: text and len(text) > 20)[0]
