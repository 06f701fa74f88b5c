"""The HTML page in headless Chromium: three widths, two themes, with and without scripts, nothing overflows."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from torchspec.model.memo import Memo
from torchspec.report import render
from torchspec.report.view import view

pytestmark = pytest.mark.browser

PROBE = """<script>
addEventListener("load", () => {
  const root = document.documentElement;
  const wide = [...document.querySelectorAll("body *")].filter((e) => {
    const box = e.getBoundingClientRect();
    return box.width > 1 && box.right > root.clientWidth + 1 && !e.closest("caption") && !e.closest("svg");
  }).map((e) => e.tagName + "." + e.className + " " + e.textContent.slice(0, 40));
  const small = [...document.querySelectorAll(".mark")].filter((e) => !e.textContent.trim()).length;
  const pressed = [...document.querySelectorAll(".filter button")].map((b) => b.textContent);
  let filtered = null;
  const fail = document.querySelector(".filter button[data-key=fail]");
  if (fail) {
    fail.click();
    const table = fail.parentElement.nextElementSibling.querySelector("table");
    filtered = [...table.querySelectorAll("tr[data-key]")].filter((r) => !r.hidden).map((r) => r.dataset.key);
  }
  let sorted = null;
  const sort = document.querySelector("table[data-sort] .sort");
  if (sort) {
    sort.click();
    const table = sort.closest("table");
    sorted = [...table.tBodies].map((b) => b.rows[0].cells[0].textContent.trim());
  }
  const split = [...document.querySelectorAll(".t-words .mark")].filter((e) => !e.textContent.trim().includes(" ")
    && e.getClientRects().length > 1).map((e) => e.textContent);
  const labels = [...document.querySelectorAll("tr.traced")].map((r) => [...r.cells].slice(1)
    .filter((c) => getComputedStyle(c).display === "grid").map((c) => parseFloat(getComputedStyle(c).paddingLeft)));
  const uneven = labels.filter((row) => new Set(row).size > 1).length;
  const boxed = [...document.querySelectorAll(".wide")].filter((e) => e.querySelector(".t-matrix")
    && (e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight)).map((e) => e.textContent.slice(0, 40));
  const said = {
    wide, small, split, boxed, uneven, pressed, filtered, sorted,
    scroll: root.scrollWidth - root.clientWidth,
    ground: getComputedStyle(document.body).backgroundColor,
    font: document.fonts.check('16px "Memo Sans"'),
    head: getComputedStyle(document.querySelector("thead")).display,
  };
  const note = document.createElement("div");
  note.id = "probe";
  note.textContent = JSON.stringify(said);
  document.body.append(note);
});
</script>"""


def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.fail("Chromium is needed: `make test` installs it (Debian: chromium)", pytrace=False)
    return found


def look(page: str, folder: Path, width: int, *, dark: bool = False, scripts: bool = True) -> dict[str, object]:
    """What the probe saw of `page` at a window's width in CSS pixels."""
    loose = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    if not scripts:
        loose = re.sub(r"<script>.*?</script>", "", loose, flags=re.S)
    path = folder / "probed.html"
    path.write_text(loose.replace("</body>", PROBE + "</body>"), encoding="utf-8")
    command = [
        chromium(),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        f"--user-data-dir={folder / 'profile'}",
        f"--window-size={width},1200",
        "--virtual-time-budget=4000",
        *(["--blink-settings=preferredColorScheme=0"] if dark else []),
        "--dump-dom",
        path.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, timeout=120, check=False)
    found = re.search(r'<div id="probe">(.*?)</div>', done.stdout.decode(), re.S)
    assert found is not None, done.stderr.decode()[-2000:]
    said: dict[str, object] = json.loads(html.unescape(found[1]))
    return said


@pytest.mark.parametrize("width", [1280, 820, 500])
@pytest.mark.parametrize("dark", [False, True])
def test_nothing_overflows_at_three_widths_in_two_themes(memo: Memo, tmp_path: Path, width: int, dark: bool) -> None:
    seen = look(render.html_of(memo), tmp_path, width, dark=dark)
    assert seen["wide"] == []
    assert seen["scroll"] == 0
    assert seen["boxed"] == [], "the matrix stands in a box that scrolls"
    assert seen["small"] == 0
    assert seen["font"] is True
    assert seen["ground"] == ("rgb(15, 20, 27)" if dark else "rgb(255, 255, 255)")
    assert seen["head"] == ("none" if width == 500 else "table-header-group")
    assert seen["split"] == [], "an outcome's word is broken in two"
    assert seen["uneven"] == 0, "labels of a narrow list do not stand in one line"


@pytest.mark.parametrize("width", [1280, 500])
def test_hostile_text_overflows_nothing(evil: Memo, tmp_path: Path, width: int) -> None:
    seen = look(render.html_of(evil), tmp_path, width)
    assert seen["wide"] == []
    assert seen["scroll"] == 0


def test_filters_and_sorting_work(invented: ModuleType, tmp_path: Path) -> None:
    plan, verdict = invented.scaled(200)
    memo = view(plan, verdict, **invented.arguments(lock=invented.lock(plan), records=[]))
    seen = look(render.html_of(memo), tmp_path, 1280)
    assert isinstance(seen["filtered"], list)
    assert set(seen["filtered"]) == {"fail"}
    assert isinstance(seen["sorted"], list)
    assert seen["sorted"] == sorted(seen["sorted"])
    assert isinstance(seen["pressed"], list)
    assert seen["pressed"][0] == "all 1000"
    assert all(re.fullmatch(r"[a-z ]+ \d+", p) for p in seen["pressed"])


def test_the_page_says_the_same_without_scripts(memo: Memo, tmp_path: Path) -> None:
    seen = look(render.html_of(memo), tmp_path, 1280, scripts=False)
    assert seen["pressed"] == []
    assert seen["wide"] == []


def test_the_pages_policy_lets_its_own_script_run_and_no_other(memo: Memo, tmp_path: Path) -> None:
    page = render.html_of(memo).replace("</body>", "<script>document.title = 'broken in'</script></body>")
    path = tmp_path / "page.html"
    path.write_text(page, encoding="utf-8")
    command = [
        chromium(),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        f"--user-data-dir={tmp_path / 'profile'}",
        "--virtual-time-budget=2000",
        "--dump-dom",
        path.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, timeout=120, check=False).stdout.decode()
    assert "<title>broken in</title>" not in done
    assert 'class="filter"' in done
