"""The page in a browser: from disk, without a network, on a phone, whatever users call things."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from tests.report.conftest import IMAGE, KINDS, SCREENSHOTS, SCRIPT

SIZES = {"phone": (390, 844), "desk": (1440, 900)}
# What scrolls by itself may be wider than the page; nothing else.
WIDER = """() => {
  const edge = document.documentElement.clientWidth + 1;
  return [...document.querySelectorAll("body *")]
    .filter((e) => !e.closest(".scroll, pre, #hover, svg, .plot, noscript"))
    .filter((e) => e.getBoundingClientRect().right > edge && e.offsetParent !== null)
    .map((e) => `${e.tagName}.${e.className}: ${e.textContent.slice(0, 40)}`);
}"""
PAST = """() => [...document.querySelectorAll(".plot")].filter((e) =>
  e.getBoundingClientRect().right > document.documentElement.clientWidth + 1).length"""


@contextmanager
def opened(browser, path, size="desk"):
    """A page from disk, with what it complained about and asked the network for."""
    width, height = SIZES[size]
    context = browser.new_context(
        viewport={"width": width, "height": height}, has_touch=size == "phone"
    )
    page = context.new_page()
    page.set_default_timeout(20_000)
    page.complaints, page.asked = [], []
    page.on("console", lambda message: page.complaints.append(f"{message.type} {message.text}"))
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("request", lambda request: page.asked.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_function("document.documentElement.dataset.ready === 'yes'")
    page.wait_for_timeout(250)
    yield page
    context.close()


@pytest.mark.parametrize("kind", KINDS)
def test_opens_and_fits(browser, pages, kind):
    path = pages[kind]
    SCREENSHOTS.mkdir(exist_ok=True)
    with opened(browser, path, "phone") as page:
        for size, (width, height) in SIZES.items():
            page.set_viewport_size({"width": width, "height": height})
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                page.wait_for_timeout(200)
                check(page, path, size, scheme)
                page.screenshot(path=SCREENSHOTS / f"{kind}-{size}-{scheme}.png", full_page=True)


def check(page, path, size, scheme):
    """Quiet, complete, no wider than the screen, in the colours asked for."""
    assert page.complaints == []
    asked = [url for url in page.asked if not url.startswith(("data:", "blob:"))]
    assert asked == [path.as_uri()]
    drawn = page.locator(".plot").evaluate_all(
        "(all) => all.map((e) => [e.ariaLabel, e.querySelectorAll('.main-svg').length > 0])"
    )
    assert len(drawn) >= 2
    assert [label for label, there in drawn if not there] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size][0]
    assert page.evaluate(WIDER) == []
    assert page.evaluate(PAST) == 0
    assert page.evaluate("window.hacked") is None
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 29)"}[scheme]


def test_the_slider_moves_scales_and_filters(browser, pages):
    with opened(browser, pages["classes"]) as page:
        block = page.locator(".sliding")
        slider, told = block.locator("input"), block.locator("output")
        shown = "e => JSON.stringify([e.data[0].z, e.data.map((t) => t.y)])"
        parts = [block.locator(f'[data-plot="{name}"]') for name in ("weights", "responses")]
        seen = []
        for place in ("0", slider.get_attribute("max")):
            slider.fill(place)
            seen.append((told.inner_text(), *[part.evaluate(shown) for part in parts]))
        (first, *before), (last, *after) = seen
        assert (first, last) == ("0", "8")
        assert before[0] != after[0]
        assert before[1] != after[1]
        assert "frame bounds" in block.locator(".state").last.inner_text()
        assert page.complaints == []


@pytest.mark.parametrize("size", SIZES)
def test_pointing_at_a_dot_shows_the_molecule(browser, pages, size):
    with opened(browser, pages["classes"], size) as page:
        dots = page.locator('[data-plot="map"] .points path')
        assert dots.count() == 80
        page.locator(".map").scroll_into_view_if_needed()
        card = page.locator("#hover")
        assert card.is_hidden()
        for k in range(dots.count()):  # some lie below others
            box = dots.nth(k).bounding_box()
            x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
            if 0 < y < SIZES[size][1]:
                page.touchscreen.tap(x, y) if size == "phone" else page.mouse.move(x, y)
                page.wait_for_timeout(60)
                if card.is_visible():
                    break
        assert card.locator("svg.molecule").count() == 1
        assert IMAGE in card.locator("h4").inner_text()
        assert "class <" in card.locator(".lines").inner_text()
        edges = card.bounding_box()
        assert edges["x"] >= 0
        assert edges["x"] + edges["width"] <= SIZES[size][0]
        assert page.evaluate("window.hacked") is None


def test_maps_colours_and_targets_can_be_chosen(browser, pages):
    with opened(browser, pages["numbers"]) as page:
        places = "e => JSON.stringify(e.data[0].x)"
        plot = page.locator('[data-plot="map"]')
        before = plot.evaluate(places)
        page.locator(".how").select_option("pca")
        assert plot.evaluate(places) != before
        shade = plot.evaluate("e => JSON.stringify(e.data[0].marker.color)")
        page.locator(".map .frame").select_option(index=1)
        assert plot.evaluate("e => JSON.stringify(e.data[0].marker.color)") != shade
        one = page.locator("#predictions figure")
        title = "e => e.layout.xaxis.title.text"
        assert one.locator(".plot").evaluate(title) == "true nodes"
        one.locator("select").select_option(label="heat")
        assert one.locator(".plot").evaluate(title) == "true heat"
        assert page.complaints == []


def test_plots_have_the_colours_asked_for(browser, pages):
    with opened(browser, pages["classes"]) as page:
        ink = "document.querySelector('.plot')._fullLayout.font.color"
        before = page.evaluate(ink)
        page.emulate_media(color_scheme="dark")
        page.wait_for_timeout(200)
        assert page.locator("html").get_attribute("data-theme") == "dark"
        assert page.evaluate(ink) != before


def test_html_in_names_is_text(browser, pages):
    with opened(browser, pages["classes"]) as page:
        assert page.title() == "Predicting classes of a<b>&c with LEGS-FCN"
        for text in (SCRIPT, IMAGE):
            assert text in page.locator(".lead").inner_text()
            assert (
                text
                in page.locator(".cards article").first.inner_text()
                + page.locator(".cards").nth(1).inner_text()
            )
        assert page.locator("main script, main img, main b").count() == 0
        # Plotly's labels know tags, too.
        ticks = page.locator('[data-plot="confusion"] .xtick').all_text_contents()
        assert any(tick.startswith("<script>") for tick in ticks)
        page.locator(".map").scroll_into_view_if_needed()
        assert any("<img" in name for name in page.locator(".map .legendtext").all_text_contents())
        assert page.evaluate("window.hacked") is None


def test_code_that_slips_in_cannot_run(browser, pages, tmp_path):
    """The page allows its own two scripts by their digests, and nothing else."""
    text = pages["classes"].read_text(encoding="utf-8")
    broken = tmp_path / "broken.html"
    broken.write_text(text.replace("<h1>", f"{SCRIPT}{IMAGE}<h1>", 1), encoding="utf-8")
    with opened(browser, broken) as page:
        assert page.evaluate("window.hacked") is None
        assert any("Content Security Policy" in told for told in page.complaints)
