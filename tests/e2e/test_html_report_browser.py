"""The HTML report in a real browser: it opens without a complaint, its script runs, and its numbers are there."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fixtures import perf_documents
from fixtures import trace_documents as made
from fixtures.html_pages import Page
from winml.modelkit.console.html_report import render_html
from winml.modelkit.perf.document import PerfDocument

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--disable-extensions",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--v=0",
    "--window-size=1280,1000",
    "--virtual-time-budget=3000",
)


@dataclass(frozen=True)
class Opened:
    """A page after its scripts ran, and what the browser's console said."""

    page: Page
    console: list[str]

    @property
    def ready(self) -> bool:
        """The page's script came to its end."""
        return self.page.root.all("html")[0].attributes.get("data-ready") == "true"


Open = Callable[[str], Opened]


@pytest.fixture(scope="module")
def browser() -> str:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"no browser here: none of {', '.join(BROWSERS)} is on the path")
    return found


@pytest.fixture
def open_page(browser: str, tmp_path: Path) -> Open:
    """Open a page from a file, as a user does."""

    def run(text: str) -> Opened:
        file = tmp_path / "report.html"
        file.write_text(text, encoding="utf-8", newline="\n")
        done = subprocess.run(
            [browser, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", file.as_uri()],
            capture_output=True,
            timeout=120,
            check=False,
        )
        log = done.stderr.decode("utf-8", "replace")
        assert done.returncode == 0, log[-2000:]
        console = [line for line in log.splitlines() if "CONSOLE" in line or "Uncaught" in line]
        return Opened(Page(done.stdout.decode("utf-8")), console)

    return run


def with_driver(text: str, driver: str) -> str:
    """The page with a second script that works its controls; its policy would forbid that, so it is left out."""
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    return text.replace("</body>", f"<script>{driver}</script></body>")


def test_a_measured_report_opens_without_a_complaint_and_shows_its_p50(
    winml: Callable[..., Any], open_page: Open, tmp_path: Path
) -> None:
    report = tmp_path / "measured.html"
    options = ("--ep", "cpu", "--op-tracing", "basic", "--monitor", "--iterations", "30", "--format", "json")
    ran = winml("perf", "-m", "digits", *options, "--report", str(report))
    assert ran.code == 0, ran.err
    document = msgspec.json.decode(ran.stdout_bytes, type=PerfDocument)
    assert document.result is not None
    opened = open_page(report.read_text(encoding="utf-8"))
    assert opened.console == []
    assert opened.ready
    shown = opened.page.root.by_id("p50")
    per_ms = {"ms": 1.0, "µs": 1000.0, "s": 0.001}
    assert shown.parent is not None
    unit = shown.parent.all("small")[0].text
    assert float(shown.text) == pytest.approx(document.result.latency_ms.p50 * per_ms[unit], rel=0.006)
    assert msgspec.convert(opened.page.document, PerfDocument) == document
    assert opened.page.has("trace")
    assert opened.page.has("hardware")


@pytest.mark.parametrize("name", ["full", "by shape", "crashed", "refused", "one run", "long run", "emulated"])
def test_every_kind_of_report_opens_without_a_complaint(name: str, open_page: Open) -> None:
    documents: dict[str, Callable[[], PerfDocument]] = {
        "full": made.full,
        "by shape": perf_documents.by_shape,
        "crashed": perf_documents.crashed,
        "refused": perf_documents.refused,
        "one run": lambda: made.run_of([6.1]),
        "long run": lambda: made.random_run(100_000),
        "emulated": perf_documents.emulated,
    }
    opened = open_page(render_html(documents[name]()))
    assert opened.console == []
    assert opened.ready


def test_names_of_a_hostile_model_neither_run_nor_make_elements(open_page: Open) -> None:
    opened = open_page(render_html(made.hostile()))
    assert opened.console == []
    assert opened.ready
    assert opened.page.root.all("img") == []
    assert len(opened.page.root.all("script")) == 2


def test_markup_that_slipped_in_would_be_stopped_by_the_policy(open_page: Open) -> None:
    text = render_html(made.run_of([6.1])).replace(
        "</main>",
        "<script>document.title='in'</script><img src=http://localhost:9/x onerror=\"document.title='in'\"></main>",
    )
    opened = open_page(text)
    assert opened.ready
    assert opened.page.root.all("title")[0].text != "in"
    assert sum("Content Security Policy" in line for line in opened.console) >= 2


def test_a_click_on_a_heading_sorts_the_table(open_page: Open) -> None:
    click = "document.querySelectorAll('#trace table.sortable th button')[{}].click();"
    text = render_html(made.traced(made.small_trace()))

    def sorted_by(column: int, clicks: int = 1) -> tuple[list[str], str | None]:
        opened = open_page(with_driver(text, click.format(column) * clicks))
        assert opened.console == []
        table = opened.page.section("trace").all("table")[0]
        return [row[0] for row in table.rows()[1:]], table.all("th")[column].attributes.get("aria-sort")

    assert sorted_by(0) == (["conv", "gemm", "move"], "ascending")
    assert sorted_by(0, clicks=2) == (["move", "gemm", "conv"], "descending")
    assert sorted_by(4) == (["conv", "gemm", "move"], "descending")
    assert sorted_by(4, clicks=2) == (["move", "gemm", "conv"], "ascending")


def test_the_pointer_reads_values_off_the_plots(open_page: Open) -> None:
    document = made.run_of([1.0, 2.0, 3.0])
    document.hardware = made.hardware()
    driver = """
      const said = [];
      for (const [selector, share] of [["#latency .area", 0.5], ["#latency .area", 1], ["#hardware .area", 1]]) {
        const area = document.querySelector(selector), box = area.getBoundingClientRect();
        area.dispatchEvent(new PointerEvent("pointermove", {clientX: box.left + share * box.width, clientY: box.top}));
        said.push(document.querySelector(".tip").textContent);
      }
      document.title = said.join("|");
    """
    opened = open_page(with_driver(render_html(document), driver))
    assert opened.console == []
    last = document.hardware.counters["process_cpu"].values[-1]
    assert opened.page.root.all("title")[0].text == f"run 2 · 2.00 ms|run 3 · 3.00 ms|6.00 s · {last:.1f}%"
