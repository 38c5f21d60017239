"""The report in a real browser: what is drawn, picked, sorted and filtered; nothing fetched, a silent console."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smoothcert.analysis import Results
from smoothcert.analysis.settings import Settings
from smoothcert.present.report import About, Ahead, Audited, Example, write_report
from smoothcert.procedures import ABSTAIN, Certificate
from smoothcert.procedures.certificate import Decision
from smoothcert.runs import Record
from smoothcert.stats import Tally

pytestmark = pytest.mark.slow
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 380, "height": 800}
HOSTILE = "</script><img src=x onerror=alert(1)>"


def record(index: int, label: int, said: int, radius: float, draws: int) -> Record:
    certificate = Certificate(
        label=said,
        reason=f"why {index}",
        alpha=0.001,
        answers=(("bound", Tally((0, draws - 3, 3))),),
        procedure={"name": "fixed"},
        radius=radius,
        norm="l2",
        p_lower=0.9,
    )
    return Record.of(index, label, certificate, 0.5)


def small() -> list[Results]:
    """Run a: 4 of 8 right, below 0.3, 0.5, 0.5, 1; two wrong; two abstain. Run b: 8 of 8 right below 0.8."""
    said = [1, 1, 2, 2, 0, 0, ABSTAIN, ABSTAIN]
    radii = [0.3, 0.5, 0.5, 1.0, 0.2, 0.7, 0.0, 0.0]
    labels = [1, 1, 2, 2, 1, 2, 1, 2]
    a = [record(10 * i, labels[i], said[i], radii[i], 100 + 7 * i % 40) for i in range(8)]
    b = [record(10 * i, labels[i], labels[i], 0.8, 50) for i in range(8)]
    settings = Settings(norm="l2", noise={"name": "gaussian", "sigma": 0.25})
    return [Results("run a", tuple(a), settings=settings), Results("run b", tuple(b), settings=settings)]


Open = Callable[..., Any]


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """A function that writes a report and opens it; at the end nothing was on the console and nothing was fetched."""
    heard: list[str] = []
    contexts = []

    def listen(page: Any, path: Path) -> None:
        page.on("console", lambda message: heard.append(message.text))
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.on("request", lambda request: heard.append(request.url) if _outside(request.url, path) else None)
        page.on("dialog", lambda dialog: heard.append(dialog.message))

    def open_report(results: list[Results], *, viewport: Any = WIDE, scheme: str = "light", **options: Any) -> Any:
        path = write_report(results, tmp_path / "report.html", **options)
        context = browser.new_context(viewport=viewport, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        listen(page, path)
        page.goto(path.as_uri())
        return page

    yield open_report
    for context in contexts:
        context.close()
    assert heard == []


def _outside(url: str, path: Path) -> bool:
    return url != path.as_uri() and not url.startswith("data:image/png;base64,")


def texts(page: Any, selector: str) -> list[str]:
    found: list[str] = page.locator(selector).all_inner_texts()
    return found


def indices(page: Any) -> list[int]:
    found: list[int] = page.eval_on_selector_all(".card", "cards => cards.map(card => Number(card.dataset.index))")
    return found


def extent(page: Any, run: int) -> dict[str, float]:
    box: dict[str, float] = page.eval_on_selector(
        f".curve[data-run='{run}']",
        "path => { const b = path.getBBox();"
        " return { left: b.x, top: b.y, right: b.x + b.width, low: b.y + b.height }; }",
    )
    return box


@contextmanager
def unchanged(page: Any, selector: str) -> Iterator[None]:
    before = page.inner_html(selector)
    yield
    assert page.inner_html(selector) == before


def test_curves_are_drawn_where_they_belong(opened: Open) -> None:
    page = opened(small())
    assert page.locator(".curve").count() == page.locator(".band").count() == 2
    a, b = extent(page, 0), extent(page, 1)
    size = page.eval_on_selector("#chart > svg", "svg => svg.viewBox.baseVal.height")
    top, low = 22, size - 44  # of the axes: 100% and 0%
    assert b["top"] == pytest.approx(top, abs=0.1), "run b starts at 100%"
    assert a["top"] == pytest.approx((top + low) / 2, abs=0.1), "run a starts at 50%"
    assert a["low"] == b["low"] == pytest.approx(low, abs=0.1)
    assert a["left"] == b["left"] == pytest.approx(44, abs=0.1)
    assert (b["right"] - 44) / (a["right"] - 44) == pytest.approx(0.8 / 1.0, abs=1e-3), "they end at 0.8 and 1"


def test_hard_inputs_are_drawn_and_counted(opened: Open) -> None:
    """Half of run a is wrong or abstains; every other bound of p_A is 0.9: both curves end at 100% from there."""
    page = opened(small())
    assert page.locator(".rise").count() == 2
    path = page.get_attribute("#certainty .rise[data-run='0']", "d")
    size = page.eval_on_selector("#certainty > svg", "svg => [svg.viewBox.baseVal.width, svg.viewBox.baseVal.height]")
    start, step, up, _ = (float(number) for number in re.findall(r"(?:M\S+ |H|V)([0-9.]+)", path))
    top, low = 12, size[1] - 44
    assert start == pytest.approx((top + low) / 2, abs=0.1), "50% are below 0.5"
    assert step == pytest.approx(44 + 0.8 * (size[0] - 60), abs=0.1), "0.9 is at four fifths from 0.5 to 1"
    assert up == pytest.approx(top, abs=0.1)
    first, second = texts(page, "#hardness tbody tr")
    assert [cell.split("\n")[0] for cell in texts(page, "#hardness tbody tr:first-child td")] == [
        "50.0", "50.0", "50.0", "100.0", "0.0000", "0.0000",
    ]  # fmt: skip
    assert "0.9000" in second, "the median of run b"
    assert "run a" in first
    page.get_by_role("button", name=re.compile("run b")).first.click()
    assert page.locator(".rise").count() == 1


def test_without_bounds_nothing_is_said_of_hard_inputs(opened: Open) -> None:
    page = opened([Results("log", (Record(0, 1, 1, 0.5),))])
    assert page.locator("#certainty-title").is_hidden()


def decided() -> list[Results]:
    """Eight inputs of one classifier: run a looks for the largest radius, run b decided 0.5 and certified 6."""
    a, _ = small()
    settings = replace(a.settings, classifier={"fingerprint": "c"})
    records = []
    for i, one in enumerate(a.records):
        shown = i < 6
        certificate = replace(
            one.certificate,
            label=one.label if shown else ABSTAIN,
            radius=0.5 if shown else 0.0,
            decisions=(Decision(0.5, shown, 1, 9),),
            answers=(("bound", Tally((0, 9, 1))),),
        )
        records.append(Record.of(one.index, one.label, certificate, 0.5))
    return [replace(a, settings=settings), Results("run b", tuple(records), settings=settings)]


def test_a_run_of_given_radii_ends_with_a_mark_and_says_what_was_not_asked(opened: Open) -> None:
    page = opened(decided(), radii=[0, 0.5, 1])
    size = page.eval_on_selector("#chart > svg", "svg => svg.viewBox.baseVal.height")
    a, b = extent(page, 0), extent(page, 1)
    assert a["low"] == pytest.approx(size - 44, abs=0.1), "run a falls to 0"
    assert b["low"] == pytest.approx(b["top"], abs=0.1), "run b ends where it is, at 75%"
    mark = page.locator("rect.end").get_attribute("x")
    assert page.locator("rect.end").count() == 1
    assert float(mark) + 4 == pytest.approx(b["right"], abs=0.1)
    assert "75.0% of 8" in texts(page, ".headline .sentence")[1]
    page.get_by_label("Radius as a number").fill("0.75")
    first, second = texts(page, ".headline .sentence")
    assert "12.5% of 8" in first
    assert second == "Nothing is known at ℓ₂ radius 0.75: this run was asked about radii up to 0.5"
    assert texts(page, ".headline .big")[1] == "not asked"
    assert [text.split("\n")[0] for text in texts(page, "td[data-key='picked']")] == ["12.5", "not asked"]
    assert [text.split("\n")[0] for text in texts(page, "td[data-key='r2']")] == ["12.5", "not asked"]
    assert texts(page, ".class[data-class='1'] .figure")[1] == "not asked"
    assert "run b not asked" in page.get_attribute("#radius-slider", "aria-valuetext")
    assert page.locator("#chart circle").count() == 1, "only run a has a value there"
    (said,) = texts(page, ".headline .beside")
    assert said.startswith("3 of 8 answers differ from run a at radius 0.5, with 11 times fewer draws")


def test_the_legend_hides_and_shows_a_curve(opened: Open) -> None:
    page = opened(small())
    button = page.get_by_role("button", name="run b ACR")
    button.focus()
    page.keyboard.press("Enter")
    assert button.get_attribute("aria-pressed") == "false"
    assert page.locator(".curve[data-run='1']").count() == 0
    assert page.locator(".curve[data-run='0']").count() == 1
    assert page.locator(".class[data-class='1'] .bar").count() == 1, "the classes follow"
    button.click()
    assert page.locator(".curve").count() == 2


def test_picking_a_radius_changes_headline_table_and_classes(opened: Open) -> None:
    page = opened(small(), radii=[0, 0.5, 1])
    sentence = "Certified at ℓ₂ radius 0.5 with 99.9% confidence: 37.5% of 8 inputs"
    assert texts(page, ".headline .sentence")[0] == sentence
    page.get_by_label("Radius as a number").fill("0.51")
    assert "radius 0.51 with 99.9% confidence: 12.5% of 8" in texts(page, ".headline .sentence")[0]
    assert [text.split("\n")[0] for text in texts(page, "td[data-key='picked']")] == ["12.5", "100.0"]
    # Class 1 of run a: 0.3 and 0.5 of four inputs; class 2: 0.5 and 1.
    assert texts(page, ".class[data-class='2'] .figure")[0] == "25.0% (1/4)"
    page.get_by_role("group", name="Radii of the table").get_by_role("button", name="0", exact=True).click()
    assert page.input_value("#radius-number") == page.input_value("#radius-slider") == "0"
    assert "50.0% of 8" in texts(page, ".headline .sentence")[0]
    page.locator("#radius-slider").focus()
    page.keyboard.press("End")
    assert "radius 1 with 99.9% confidence: 12.5% of 8" in texts(page, ".headline .sentence")[0]
    with unchanged(page, "#headlines"):
        page.get_by_label("Radius as a number").fill("-1")


def test_hovering_reads_the_curves_and_a_click_picks(opened: Open) -> None:
    page = opened(small())
    page.locator("#chart").scroll_into_view_if_needed()
    box = page.locator("#chart > svg").bounding_box()
    width = page.eval_on_selector("#chart > svg", "svg => svg.viewBox.baseVal.width")
    x = box["x"] + (44 + (width - 60) * 0.4 / 1.02) * box["width"] / width  # radius 0.4
    page.mouse.move(x, box["y"] + 100)
    tip = page.inner_text(".tip")
    radius = float(re.findall(r"radius (\S+)", tip)[0])
    assert radius == pytest.approx(0.4, abs=0.02)
    assert re.findall(r"[\d.]+%", tip) == ["37.5%", "100.0%"]
    page.mouse.click(x, box["y"] + 100)
    assert float(page.input_value("#radius-number")) == radius
    page.mouse.move(2, 2)
    assert page.locator(".tip").count() == 0


def test_the_table_sorts(opened: Open) -> None:
    page = opened(small())
    names = "#comparison tbody th"
    assert [text.split("\n")[0] for text in texts(page, names)] == ["run a", "run b"]
    page.get_by_role("button", name="ACR: sort").click()
    assert [text.split("\n")[0] for text in texts(page, names)] == ["run b", "run a"], "the best first"
    assert page.locator("th[data-key='acr']").get_attribute("aria-sort") == "descending"
    page.keyboard.press("Enter")
    assert [text.split("\n")[0] for text in texts(page, names)] == ["run a", "run b"], "the button keeps the focus"
    # (0.3 + 0.5 + 0.5 + 1) / 8 = 0.2875
    assert texts(page, "td[data-key='acr']")[0].startswith("0.2875")


def test_pixels_are_counted_up_to_a_radius(opened: Open) -> None:
    """An l0 certificate includes its radius: "below 1" would be nothing."""
    counted = [Record(0, 1, 1, 1.0), Record(1, 1, 0, 3.0), Record(2, 1, ABSTAIN, 0.0)]
    page = opened([Results("l0", tuple(counted), settings=Settings(norm="l0"))])
    expect = pytest.importorskip("playwright.sync_api").expect
    for number, words in ((1, "wrong up to radius 3"), (2, "nothing is claimed"), (0, "up to radius 1")):
        card = page.locator(f".card[data-index='{number}'] .radius")
        card.scroll_into_view_if_needed()
        expect(card).to_have_text(words)
    assert "in ℓ₀, which counts pixels, none of that norm either" in page.inner_text("#fine")
    assert "ℓ₀" not in opened(small()).inner_text("#fine")


def test_published_results_have_how_far_the_first_is_ahead(opened: Open) -> None:
    first, second = small()
    page = opened([first, second])
    assert (page.locator("td[data-key='ahead']").count(), page.locator("#published").is_visible()) == (0, False)
    page = opened([first, second], published={"run b": Ahead(-0.5125, "-0.5125", "-0.7", "+0.1")})
    assert texts(page, "td[data-key='ahead']") == ["–", "-0.5125\n-0.7 to +0.1"]
    assert "run a is ahead by" in texts(page, "#comparison thead th")
    assert page.locator("#published").is_visible()


def test_inputs_filter_and_sort(opened: Open) -> None:
    page = opened(small(), radii=[0, 0.5, 1])
    assert indices(page) == [50, 40, 60, 70, 0, 10, 20, 30], "certified wrong, abstained, then by radius"
    first, expect = page.locator(".card").first, pytest.importorskip("playwright.sync_api").expect
    first.scroll_into_view_if_needed()  # what is far away is not laid out
    expect(first).to_contain_text("should be 2", use_inner_text=True)
    expect(first).to_contain_text("wrong below radius 0.7000", use_inner_text=True)
    assert texts(page, "#filters button") == ["All (8)", "Wrong (2)", "Abstained (2)", "Certified below 0.5 (1)"]
    for button, left in (("Wrong (", [50, 40]), ("Abstained (", [60, 70]), ("Certified below", [0])):
        page.get_by_role("button", name=button).click()
        assert indices(page) == left
    expect(page.locator(".card .reason").first).to_contain_text("why 0", use_inner_text=True)
    page.get_by_label("Radius as a number").fill("0.6")
    assert indices(page) == [0, 10, 20], "the filter follows the radius"
    page.get_by_role("button", name="All (").click()
    page.select_option("#sort", "index")
    assert indices(page) == [0, 10, 20, 30, 40, 50, 60, 70]
    page.select_option("#sort", "draws")
    assert indices(page)[:2] == [50, 40], "135 and 128 draws"
    page.select_option("#run", "1")
    assert texts(page, "#filters button")[1] == "Wrong (0)"
    page.get_by_role("button", name="Wrong").click()
    assert indices(page) == []
    assert page.inner_text("#count") == "There are no such inputs."


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_have_contrast(opened: Open, scheme: str) -> None:
    page = opened(small(), scheme=scheme)
    for selector in ("body", "#about", ".headline .sentence", ".headline .meta", ".fine", ".card.wrong .verdict"):
        ratio = page.eval_on_selector(selector, CONTRAST)
        assert ratio >= 4.5, f"{selector} in {scheme}: {ratio}"
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (max(map(int, re.findall(r"\d+", dark)[:3])) < 60) == (scheme == "dark")


CONTRAST = """node => {
  const light = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number).map((v) => v / 255)
    .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  let below = node;
  while (getComputedStyle(below).backgroundColor === "rgba(0, 0, 0, 0)") below = below.parentElement;
  const [a, b] = [light(getComputedStyle(node).color), light(getComputedStyle(below).backgroundColor)];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}"""


def test_a_phone_has_no_sideways_scrolling(opened: Open) -> None:
    long = Results("a-very-long-name-without-a-space" * 4, small()[0].records, warnings=("w" * 200,))
    names = {long.name: ["c" * 60, "d" * 60, "e" * 60]}
    page = opened([long, small()[1]], viewport=PHONE, class_names=names)
    for radius in ("0", "0.5", "1"):
        page.get_by_label("Radius as a number").fill(radius)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert extent(page, 1)["right"] < PHONE["width"]


def test_a_thousand_images_open_at_once_and_more_come_in_pages(opened: Open) -> None:
    rng = np.random.default_rng(0)
    many = tuple(record(i, 1 + i % 2, 1, float(rng.random()), 100) for i in range(2500))
    images = {"many": {i: rng.integers(256, size=(1, 8, 8), dtype=np.uint8) for i in range(2500)}}
    page = opened([Results("many", many)], images=images)
    assert page.locator(".card img").count() == 1000
    assert page.inner_text("#count") == "Showing the first 1,000 of 2,500 images."
    assert page.eval_on_selector(".card", "card => getComputedStyle(card).contentVisibility") == "auto"
    assert page.eval_on_selector(".card img", "image => getComputedStyle(image).imageRendering") == "pixelated"
    page.get_by_role("button", name="Show 1,000 more").click()
    page.get_by_role("button", name="Show 500 more").click()
    assert page.locator(".card").count() == 2500
    assert not page.locator("#more").is_visible()
    first = page.locator(".card img").first
    first.scroll_into_view_if_needed()
    expect = pytest.importorskip("playwright.sync_api").expect
    expect(first).to_have_js_property("naturalWidth", 8)


def told() -> About:
    """Two inputs of run a as pictures, an audit that found something, and how it was made."""
    grey = [np.full((1, 8, 8), level, np.uint8) for level in (10, 90, 20)]
    examples = (Example(0, *grey, 0.25), Example(60, grey[0], grey[1]))
    audit = Audited(False, "7 of 8 records hold: level 1", ("input 30: its radius is 2, its votes allow 1",))
    return About("2026-01-02T03:04:05+00:00", "smoothcert certify --model net.onnx", audit, examples)


def test_the_head_says_how_it_was_made_the_audit_what_it_found_and_pictures_what_noise_does(opened: Open) -> None:
    page = opened(small(), about={"run a": told()})
    assert texts(page, "#head dd") == ["2026-01-02 03:04:05 UTC", "smoothcert certify --model net.onnx"]
    assert "no change smaller than the radius" in page.inner_text(".plainly")
    assert texts(page, ".audit.fails h3") == ["run a: failed"]
    assert texts(page, ".audit li") == ["input 30: its radius is 2, its votes allow 1"]
    first, second = (page.locator(".example").nth(number) for number in (0, 1))
    assert first.locator("img").count() == 3
    assert "moved by 0.2500: proved to get the same answer" in first.inner_text()
    assert second.locator("img").count() == 2
    assert "nothing is claimed" in second.inner_text()
    first.locator("button").nth(1).click()
    assert page.locator("#large").is_visible()
    assert "with noise" in page.inner_text("#large-words")
    page.keyboard.press("Escape")
    assert not page.locator("#large").is_visible()
    page.get_by_text("What the words on this page mean").click()
    assert "ACR" in page.inner_text(".words")


def test_without_audits_and_examples_nothing_is_said_of_them(opened: Open) -> None:
    page = opened(small())
    assert not page.locator("#audits-title").is_visible()
    assert not page.locator("#examples-title").is_visible()
    assert texts(page, "#head dd") == []


def test_inputs_of_one_class(opened: Open) -> None:
    page = opened(small())
    page.select_option("#class", "1")
    assert sorted(indices(page)) == [0, 10, 40, 60]
    assert texts(page, "#filters button")[:3] == ["All (4)", "Wrong (1)", "Abstained (1)"]
    page.get_by_role("button", name="Wrong").click()
    assert indices(page) == [40]
    page.select_option("#run", "1")
    assert page.input_value("#class") == "1", "run b has the class, too"
    page.select_option("#class", "")
    page.get_by_role("button", name="All").click()
    assert len(indices(page)) == 8


def test_on_a_phone_the_table_scrolls_and_its_names_stay(opened: Open) -> None:
    page = opened(small(), viewport=PHONE, radii=[0, 0.25, 0.5, 0.75, 1])
    name, number = page.locator("#comparison tbody th").first, page.locator("#comparison tbody td").first
    before = name.bounding_box()["x"], number.bounding_box()["x"]
    page.eval_on_selector(".scroll", "box => { box.scrollLeft = 120; }")
    assert page.eval_on_selector(".scroll", "box => box.scrollLeft") == 120
    assert name.bounding_box()["x"] == before[0]
    assert number.bounding_box()["x"] == pytest.approx(before[1] - 120, abs=1)


def test_ten_thousand_inputs_are_counted_and_not_all_drawn(opened: Open) -> None:
    rng = np.random.default_rng(0)
    many = tuple(record(i, 1 + i % 2, 1, float(rng.random()), 100) for i in range(10_000))
    page = opened([Results("many", many)])
    assert page.locator(".card").count() == 1000
    page.select_option("#class", "2")
    assert page.inner_text("#count") == "Showing the first 1,000 of 5,000 inputs."
    page.get_by_label("Radius as a number").fill("0.25")
    assert texts(page, ".class[data-class='2'] .figure") == ["0.0% (0/5000)"]
    assert page.locator(".card").count() == 1000


def test_hostile_names_do_nothing(opened: Open) -> None:
    hostile = Results(
        HOSTILE, small()[0].records, settings=Settings(note=HOSTILE, noise={HOSTILE: HOSTILE}), warnings=(HOSTILE,)
    )
    page = opened([hostile], class_names={HOSTILE: [HOSTILE] * 3}, command=HOSTILE)
    assert page.locator("img").count() == 0
    assert HOSTILE in page.inner_text(".headline h3")
    assert HOSTILE in page.text_content(".card >> nth=0")
    assert HOSTILE in page.inner_text("#warning-list")
    assert page.inner_text("dt") == f"noise.{HOSTILE}"
    assert page.inner_text("dd") == page.inner_text("pre") == HOSTILE
    assert page.title().endswith(HOSTILE)


def test_without_scripts_the_sentences_are_there(browser: Any, tmp_path: Path) -> None:
    path = write_report(small(), tmp_path / "report.html")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(path.as_uri())
    assert "run a: certified at ℓ₂ radius 0.5 with 99.9% confidence: 37.5% of 8 inputs" in page.inner_text("body")
    context.close()


def test_print_shows_the_configuration_and_hides_the_controls(opened: Open) -> None:
    page = opened(small(), scheme="dark")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print", color_scheme="dark")
    page.set_viewport_size({"width": 700, "height": 1000})  # A4 between its margins
    assert page.evaluate("document.documentElement.scrollWidth") <= 700
    assert not page.locator(".picker").is_visible()
    assert page.locator("#configuration details[open]").count() == 2
    ink = page.evaluate("getComputedStyle(document.body).color")
    assert max(map(int, re.findall(r"\d+", ink))) < 60, "dark ink on paper"
