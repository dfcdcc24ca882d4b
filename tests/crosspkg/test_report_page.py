"""The page in a real browser: harmless, self-contained, small."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from safetyrepro.crosspkg.folder import load_experiment
from safetyrepro.crosspkg.report import build_report, write_report
from safetyrepro.reports.page import render_page
from tests.crosspkg.report_experiment import HUGE, SCRIPT, Shape, make

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
MARKER = "<script>document.title = 'script ran'</script>"


def chromium() -> str:
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    assert found is not None, "no Chromium on the PATH: install the package chromium"
    return found


def dom(page: Path, profile: Path) -> str:
    command = [chromium(), *FLAGS, f"--user-data-dir={profile}", "--dump-dom", page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


class Tags(HTMLParser):
    """Counts elements and collects attributes and text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make(tmp_path_factory.mktemp("page") / "made")
    return write_report(load_experiment(folder), folder)[1]


def test_hostile_outputs_are_harmless_in_chromium(page: Path, tmp_path: Path) -> None:
    html = dom(page, tmp_path / "profile")
    tags = Tags(html)
    assert "<title>Anchor report: do the suites agree?</title>" in html
    assert "script" not in tags.tags
    assert SCRIPT in "".join(tags.text).replace("·", " ")
    assert "first 600 of" in html
    assert len(html) < 3_000_000
    assert HUGE[:2_000] not in html
    assert not [name for name, _ in tags.attributes if name.startswith("on")]


def test_the_browser_would_have_run_a_script(page: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare.html"
    bare.write_text(f"<title>quiet</title>{MARKER}", encoding="utf-8")
    assert "script ran" in dom(bare, tmp_path / "one")
    slipped = tmp_path / "slipped.html"
    slipped.write_text(page.read_text(encoding="utf-8").replace("</body>", f"{MARKER}</body>"), encoding="utf-8")
    assert "<title>script ran</title>" not in dom(slipped, tmp_path / "two"), "the page's policy lets a script run"


def test_nothing_is_fetched(page: Path) -> None:
    html = page.read_text(encoding="utf-8")
    tags = Tags(html)
    assert not {"link", "script", "img", "iframe", "object", "embed", "base", "form"} & set(tags.tags)
    for name, value in tags.attributes:
        if name in ("href", "src", "xlink:href", "action", "poster"):
            assert value is not None
            assert value.startswith("#"), f"{name}={value} leaves the page"
    assert not re.search(r"url\((?!#)|@import", html)
    assert "default-src 'none'" in html


def test_the_page_has_its_parts(page: Path) -> None:
    text = " ".join(" ".join(Tags(page.read_text(encoding="utf-8")).text).split())
    for part in (
        "Do the suites agree about the same model?",
        "What to do next",
        "Scores by suite",
        "How far the suites are apart",
        "Order of the models by suite",
        "Held fixed, and not",
        "cannot be set",
        "The matched arm on the wire",
        "What each suite asked",
        "Items on which the suites disagree",
        "Denominators and statuses",
        "Versions and hashes",
        "The native runner ships no task of its own.",
        "HELM ended with code 1.",
        "0.3.285",
        "chance 25",
    ):
        assert part in text, part


def test_ids_are_unique(page: Path) -> None:
    ids = [value for name, value in Tags(page.read_text(encoding="utf-8")).attributes if name == "id"]
    assert len(ids) == len(set(ids))


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    names = ('<img src=x onerror="alert(1)">', "$\\frac{a}$ & \u202eB")
    folder = make(tmp_path / "names", Shape(items=6, benchmarks=("bbq",), models=names, failed=False))
    html = write_report(load_experiment(folder), folder)[1].read_text(encoding="utf-8")
    tags = Tags(html)
    assert "img" not in tags.tags
    assert "\u202e" not in html
    assert not [name for name, _ in tags.attributes if name.startswith("on")]


def test_a_hundred_items_stay_under_three_megabytes(tmp_path: Path) -> None:
    folder = make(tmp_path / "hundred", Shape(items=100))
    html = write_report(load_experiment(folder), folder)[1].read_text(encoding="utf-8")
    assert len(html.encode()) < 3_000_000
    assert re.search(r"The 20 furthest apart are here, \d+ more in report.json", html)


def test_a_page_without_a_waterfall_explains_none(tmp_path: Path) -> None:
    made = make(tmp_path, Shape(items=6, benchmarks=("bbq",), models=("one",), failed=False, hostile=False))
    report = build_report(load_experiment(made))
    assert "A step of a waterfall" in render_page(report)
    for entry in report:
        entry["attribution"] = []
    without = render_page(report)
    assert "A step of a waterfall" not in without
    assert "Accounts for:" in without
    for pair in (pair for entry in report for pair in entry["divergence"]):
        pair["classes"] = []
    alike = render_page(report)
    assert "Accounts for:" not in alike
    assert "Why the suites differ" not in alike
    assert "Whether anything sets the suites apart" in alike


def test_a_row_of_a_narrow_screen_names_its_columns(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for label in ("Suite", "State", "Reason", "Setting", "Asked for", "HELM"):
        assert f'data-label="{label}"' in text
