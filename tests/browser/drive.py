"""What somebody sees and does on the dashboard, by Playwright. Run by `tests.browser`, with a Python that has it."""

import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

OPS, API, MARKUP = os.environ["OPS"], os.environ["API"], os.environ["MARKUP"]
PAGES = ("overview", "tiers", "budgets", "upstreams", "requests", "keys", "usage", "configuration")
WIDE, NARROW = {"width": 1360, "height": 900}, {"width": 390, "height": 844}
WAIT_MS = 20_000
LEARNED_MS = 35_000
CHARTS = 5

DRAWN = """() => [...document.querySelectorAll('.chart canvas')].filter((canvas) => {
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  let coloured = 0;
  for (let at = 0; at < data.length; at += 4) {
    const pixel = [data[at], data[at + 1], data[at + 2]];
    if (data[at + 3] > 200 && Math.max(...pixel) - Math.min(...pixel) > 60) coloured++;
  }
  return coloured > 50;
}).length"""
"""How many charts have lines: pixels that are no shade of grey."""

NAMELESS = """() => [...document.querySelectorAll('button, a, input, select, textarea, meter')].filter((each) =>
  !(each.textContent.trim() || each.getAttribute('aria-label') || each.labels?.length)).map((each) => each.outerHTML)"""


class Seen:
    """What went wrong in a browser's window, and what it asked for."""

    def __init__(self, context: BrowserContext) -> None:
        self.wrong: list[str] = []
        self.hosts: set[str] = set()
        self.page = context.new_page()
        self.page.set_default_timeout(WAIT_MS)
        self.page.on("console", lambda said: self.wrong.append(said.text) if said.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))


def log_in(seen: Seen, token: str) -> None:
    """Give a token. That there was none before is an answer of 401, which a browser writes down."""
    page = seen.page
    expect(page.get_by_label("Token")).to_be_visible()
    assert all("401" in text for text in seen.wrong), seen.wrong
    seen.wrong.clear()
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()


def go(page: Page, name: str) -> None:
    page.goto(f"{OPS}/#/{name}")
    expect(page.locator("h1")).to_be_visible()
    page.wait_for_load_state("domcontentloaded")
    expect(page.locator(".failure")).to_have_count(0)


def status(secret: str) -> int:
    """Return what the gateway answers to a key."""
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]}).encode()
    headers = {"authorization": f"Bearer {secret}", "content-type": "application/json"}
    try:
        with urllib.request.urlopen(urllib.request.Request(f"{API}/v1/chat/completions", body, headers)) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def enters(seen: Seen, pictures: Path) -> None:
    """A token that is none, then one."""
    page = seen.page
    page.goto(OPS)
    page.screenshot(path=pictures / "login.png")
    log_in(seen, "nonsense")
    expect(page.get_by_text("knows no such token")).to_be_visible()
    log_in(seen, os.environ["ADMIN"])
    expect(page.locator(".caller")).to_have_text("admin · admin")


def draws(seen: Seen, pictures: Path) -> None:
    """Charts have lines while there is a load, and figures move."""
    page = seen.page
    expect(page.locator(".state")).to_have_text("Live")
    while page.evaluate(DRAWN) < CHARTS:  # the run as a whole has a deadline
        page.wait_for_timeout(500)
    tile = page.locator(".tile").filter(has_text="Requests").locator("dd").first
    expect(tile).not_to_have_text("–")
    expect(page.locator(".tile").filter(has_text="Workers").locator("dd").first).to_have_text("2 of 2")
    page.wait_for_timeout(20_000)
    page.screenshot(path=pictures / "overview.png", full_page=True)
    page.reload()
    expect(page.locator(".caller")).to_have_text("admin · admin")


def shows(seen: Seen, pictures: Path) -> None:
    """Every page, with what is on it; nothing that is data is markup."""
    page = seen.page
    for name in PAGES:
        go(page, name)
        page.wait_for_timeout(2500)
        assert not page.evaluate(NAMELESS), page.evaluate(NAMELESS)
        page.screenshot(path=pictures / f"{name}-wide.png", full_page=True)
    go(page, "requests")
    expect(page.get_by_role("cell", name=MARKUP, exact=True).first).to_be_visible()
    assert page.locator("main img").count() == 0
    page.locator("tbody a").first.click()
    expect(page.get_by_text("What was tried")).to_be_visible()
    page.screenshot(path=pictures / "request.png", full_page=True)
    go(page, "overview")
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_text("Skip to content")


def says(seen: Seen, pictures: Path) -> None:
    """A deployment is disabled and enabled."""
    page = seen.page
    go(page, "upstreams")
    name = "moves/q/up-m"
    row = page.get_by_role("row").filter(has_text=name)
    page.get_by_role("button", name=f"Disable {name}").click()
    page.get_by_role("dialog").get_by_role("button", name="Disable").click()
    expect(row.get_by_text("disabled")).to_be_visible()
    page.get_by_role("button", name=f"Enable {name}").click()
    expect(row.get_by_text("disabled")).to_have_count(0)
    page.screenshot(path=pictures / "upstreams-after.png")


def keeps(seen: Seen, pictures: Path) -> None:
    """A key is made, shown once, copied, used, blocked, rotated, revoked, and is no good any more."""
    page, secret = seen.page, made(seen, pictures)
    assert status(secret) == 200
    page.get_by_role("button", name="Block browser").click()
    comes(page, secret, 401, 403)
    page.get_by_role("button", name="Unblock browser").click()
    comes(page, secret, 200)
    page.get_by_role("button", name="Rotate browser").click()
    page.get_by_role("button", name="Make a new secret").click()
    rotated = page.locator(".secret").inner_text()
    page.get_by_role("button", name="Done").click()
    assert rotated != secret
    comes(page, rotated, 200)
    page.get_by_role("button", name="Revoke browser").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(page.get_by_role("row").filter(has_text="browser").get_by_text("revoked")).to_be_visible()
    comes(page, secret, 401)
    comes(page, rotated, 401)


def made(seen: Seen, pictures: Path) -> str:
    """Make a key, which is told what is wrong first. Return its secret."""
    page = seen.page
    go(page, "keys")
    page.get_by_role("button", name="New key").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Name", exact=True).fill("browser")
    form.get_by_label("Org", exact=True).fill("nowhere")
    form.get_by_role("button", name="Make the key").click()
    expect(form.get_by_role("alert")).not_to_be_empty()
    form.get_by_label("Org", exact=True).fill("acme")
    page.screenshot(path=pictures / "key-form.png")
    seen.wrong.clear()  # of the org that there is not
    form.get_by_role("button", name="Make the key").click()
    secret = page.locator(".secret").inner_text()
    page.screenshot(path=pictures / "key-secret.png")
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == secret
    page.get_by_role("button", name="Done").click()
    page.wait_for_function("secret => !document.documentElement.outerHTML.includes(secret)", arg=secret)
    return str(secret)


def comes(page: Page, secret: str, *statuses: int) -> None:
    """Wait until the gateway answers so to a key."""
    for _ in range(LEARNED_MS // 200):
        if status(secret) in statuses:
            return
        page.wait_for_timeout(200)
    raise AssertionError(f"{status(secret)} is none of {statuses}")


def may_not(seen: Seen, pictures: Path) -> None:
    """Who may only look is offered nothing else."""
    page = seen.page
    page.get_by_role("button", name="Log out").click()
    log_in(seen, os.environ["VIEWER"])
    expect(page.locator(".caller")).to_have_text("vera · viewer")
    for name in ("keys", "upstreams"):
        go(page, name)
        expect(page.locator("tbody tr").first).to_be_visible()
        assert page.get_by_role("button", name="New key").count() == 0
        assert page.locator("td button").count() == 0
    page.screenshot(path=pictures / "viewer.png")


def in_other_lights(browser: Browser, pictures: Path) -> Seen:
    """The same in the dark and on a telephone: nothing is wider than the window."""
    context = browser.new_context(viewport=NARROW, color_scheme="dark")
    seen = Seen(context)
    seen.page.goto(OPS)
    log_in(seen, os.environ["ADMIN"])
    for name in PAGES:
        go(seen.page, name)
        seen.page.wait_for_timeout(4000 if name == "overview" else 1500)
        seen.page.screenshot(path=pictures / f"{name}-narrow.png", full_page=name != "configuration")
        assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} is wider than the window"
    seen.page.set_viewport_size(WIDE)
    go(seen.page, "overview")
    seen.page.wait_for_timeout(12_000)
    seen.page.screenshot(path=pictures / "overview-dark.png", full_page=True)
    return seen


STEPS: tuple[Callable[[Seen, Path], None], ...] = (enters, draws, shows, says, keeps, may_not)


def main() -> int:
    """Look at everything. Return the exit code."""
    pictures = Path(sys.argv[1])
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=os.environ["CHROMIUM"], args=["--no-sandbox"])
        context = browser.new_context(viewport=WIDE, color_scheme="light")
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        seen = Seen(context)
        for step in STEPS:
            try:
                step(seen, pictures)
            except BaseException:
                seen.page.screenshot(path=pictures / "failed.png")
                print(f"FAILED  {step.__name__}: {seen.wrong}")
                raise
            print(f"ok      {step.__name__}", flush=True)
        both = (seen, in_other_lights(browser, pictures))
        print("ok      in_other_lights")
        browser.close()
    wrong = [text for each in both for text in each.wrong]
    hosts = {host for each in both for host in each.hosts}
    print(f"{len(wrong)} errors on the console {wrong[:3]}, hosts asked: {', '.join(sorted(hosts))}; pictures in {pictures}")
    return int(bool(wrong) or hosts != {urlsplit(OPS).netloc})


if __name__ == "__main__":
    sys.exit(main())
