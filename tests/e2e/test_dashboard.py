"""The dashboard in a real browser (Debian's Chromium, driven by Playwright) against the real
controller under made-up scores. The browser resolves no name and every request that leaves the
controller's origin is a failure."""

import re
import shutil

import pytest
from playwright.sync_api import expect, sync_playwright

from checks import replay_agrees
from injector import Injector
from system import SLOW, until

KEY = "right-key-of-the-test"
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 900}
HOSTILE = ('<img src=x onerror="window.hacked=1"><script>window.hacked=2</script>'
           '</pre><a href="javascript:window.hacked=3">x</a>')


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as p:
        made = p.chromium.launch(executable_path=shutil.which("chromium"),
                                 args=["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"])
        yield made
        made.close()


@pytest.fixture
def injector(folder, monkeypatch):
    monkeypatch.setenv("MILEPOST_ADMIN_KEY", KEY)
    made = Injector(folder)
    made.system.start("controller")
    yield made
    replay_agrees(made.system)
    made.close()


class Visit:
    """One page; what it asked for elsewhere and what went wrong in it."""

    def __init__(self, browser, system, **settings):
        self.origin = f"http://127.0.0.1:{system.port['controller']}"
        self.context = browser.new_context(**{"viewport": DESK, **settings})
        self.context.set_default_timeout(15000 * SLOW)
        expect.set_options(timeout=15000 * SLOW)
        self.page = self.context.new_page()
        self.elsewhere, self.errors = [], []
        self.page.on("request", self.see)
        self.page.on("pageerror", lambda e: self.errors.append(str(e)))
        self.page.on("console", lambda m: m.type == "error" and self.errors.append(m.text))
        self.open()

    def see(self, request):
        if not request.url.startswith(self.origin + "/"):
            self.elsewhere.append(request.url)

    def open(self, view=""):
        self.page.goto("about:blank")
        self.page.goto(self.origin + "/" + view)
        self.elsewhere = [u for u in self.elsewhere if u != "about:blank"]
        expect(self.page.locator("body")).to_have_attribute("aria-busy", "false")

    def is_clean(self, *expected):
        left = [e for e in self.errors if not any(x in e for x in expected)]
        assert not left and not self.elsewhere, (left, self.elsewhere)


@pytest.fixture
def visit(browser, injector):
    made = []

    def make(**settings):
        made.append(Visit(browser, injector.system, **settings))
        return made[-1]

    yield make
    for v in made:
        v.context.close()


def keyed(injector, path, **body):
    status, _, answer = injector.system.call("controller", "POST", path, body,
                                             {"Authorization": f"Bearer {KEY}"})
    assert status == 200, answer
    return answer


def test_the_page_follows_what_happens(injector, visit):
    v = visit()
    page = v.page
    expect(page.locator("#state")).to_contain_text("nothing of it is scored yet")
    injector.send_and_wait(injector.frames(40, None, lambda _: 0.75))
    expect(page.locator("#summary")).to_contain_text("40 outputs")
    expect(page.locator("#arms tbody tr")).to_have_count(1)
    expect(page.locator("#arms")).to_contain_text("0.750")
    trial = keyed(injector, "/api/params", params={"temperature": 1.5}, reason="hotter")
    expect(page.locator("#state .headline")).to_contain_text("Trial running")
    expect(page.locator("#state .ramp .now")).to_have_text("50%")
    injector.send_and_wait(injector.frames(30, trial, lambda bad: 0.7 if bad else 0.75))
    expect(page.locator("#arms tbody tr")).to_have_count(2)
    expect(page.locator("#tests")).to_contain_text("worse: roll back")
    injector.send_and_wait(injector.frames(300, trial, lambda bad: 0.1 if bad else 0.75))
    expect(page.locator("#state .headline")).to_contain_text("Stable")
    expect(page.locator("#latest")).to_contain_text("rollback")
    v.is_clean()
    injector.system.kill("controller")
    expect(page.locator("#problem")).to_contain_text("does not answer")
    injector.system.start("controller")
    expect(page.locator("#problem")).to_be_hidden()
    expect(page.locator("#summary")).to_contain_text("370 outputs")
    v.is_clean("ERR_CONNECTION_REFUSED", "ERR_EMPTY_RESPONSE", "ERR_CONNECTION_RESET", "503")  # starting


def test_rollback_by_button_and_a_wrong_key(injector, visit):
    injector.send_and_wait(injector.frames(10, None, lambda _: 0.7))
    trial = keyed(injector, "/api/params", params={"temperature": 1.5})
    before = len(injector.decisions())
    v = visit()
    page = v.page
    page.get_by_role("button", name="Roll back").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(f"Revision {trial['revision']} ends")
    dialog.get_by_label("Reason").fill("I do not like it")
    dialog.get_by_label("Admin key").fill("wrong")
    dialog.get_by_role("button", name="Roll back").click()
    expect(page.locator("#dialog-error")).to_contain_text("admin key")
    assert len(injector.decisions()) == before, "a wrong key changed something"
    expect(dialog.get_by_label("Reason")).to_have_value("I do not like it")
    dialog.get_by_label("Admin key").fill(KEY)
    page.keyboard.press("Enter")
    expect(dialog).to_be_hidden()
    expect(page.locator("#news")).to_contain_text("Rolled back")
    expect(page.locator("#state .headline")).to_contain_text("Stable")
    done = [d for d in injector.decisions()[before:] if d["action"] == "rollback"]
    assert [(d["actor"], d["from_revision"], d["to_revision"]) for d in done] == [
        ("operator:dashboard", trial["revision"], 1)]
    assert done[0]["detail"]["event_reason"] == "I do not like it"
    expect(page.locator("#latest")).to_contain_text("I do not like it")
    v.is_clean("401")


def test_push_promote_pause_and_resume_by_keyboard(injector, visit):
    injector.send_and_wait(injector.frames(10, None, lambda _: 0.7))
    v = visit()
    page = v.page

    def press(name):
        page.get_by_role("button", name=name).focus()
        page.keyboard.press("Enter")

    press("Push a change")
    go = page.locator("#dialog-go")
    expect(go).to_be_disabled()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    press("Push a change")
    page.get_by_label("top_p").fill("7")
    page.get_by_label("Admin key").fill(KEY)
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()  # the field's own range says no
    page.get_by_label("top_p").fill("0.5")
    expect(page.locator(".changes")).to_contain_text("top_p not set → 0.5")
    page.keyboard.press("Enter")
    expect(page.locator("#state .headline")).to_contain_text("Trial running")
    for name, state in (("Promote", "Stable"), ("Pause", "Paused"), ("Resume", "Stable")):
        press(name)
        expect(page.get_by_role("dialog")).to_be_visible()
        expect(page.get_by_label("Admin key")).to_be_hidden()  # asked for once
        page.locator("#dialog-go").press("Enter")
        expect(page.locator("#state .headline .chip")).to_have_text(state)
    champion = injector.system.get("controller", "/api/params")[2]["champion"]
    assert champion["params"] == {"temperature": 0.8, "top_p": 0.5, "max_new_tokens": 16}
    v.open("#history")
    entry = page.locator("#history details", has_text="promote").first
    entry.locator("summary").click()
    expect(entry.locator("table.diff")).to_contain_text("top_p")
    expect(entry.locator("table.diff ins")).to_have_text("0.5")
    v.is_clean()


def test_an_experiment_is_planned_started_and_stopped(injector, visit):
    injector.send_and_wait(injector.frames(60, None, lambda _: injector.near(0.7)))
    v = visit()
    page = v.page
    v.open("#experiments")
    page.get_by_role("button", name="Start an experiment").click()
    dialog, go = page.get_by_role("dialog"), page.locator("#dialog-go")
    expect(go).to_be_disabled()  # the plan comes first
    dialog.get_by_label("temperature").fill("0.4, warm")
    dialog.get_by_role("button", name="Show the plan").click()
    expect(dialog).to_contain_text("temperature: numbers, with commas")
    dialog.get_by_label("temperature").fill("0.4, 1.2")
    dialog.get_by_role("button", name="Show the plan").click()
    expect(dialog).to_contain_text("3 arms")
    expect(dialog).to_contain_text(re.compile("decided within|find no winner"))
    dialog.get_by_label("Admin key").fill(KEY)
    dialog.get_by_label("Reason").fill("which is best")
    go.click()
    expect(page.locator("#experiments details").first).to_contain_text("running")
    expect(page.locator("#experiments")).to_contain_text("which is best")
    expect(page.locator("#experiments table").first.locator("tbody tr")).to_have_count(3)
    page.get_by_role("link", name="Live").click()  # each arm with its own interval
    expect(page.locator("#arms tbody tr")).to_have_count(3)
    expect(page.locator("#arms")).to_contain_text("arm-2")
    page.get_by_role("link", name="Experiments").click()
    page.get_by_role("button", name="Stop the experiment").click()
    go.click()
    expect(page.locator("#experiments details").first).to_contain_text("stopped")
    v.is_clean()


def test_text_from_outside_stays_text(injector, visit):
    frames = [injector.frame("champion", 1, "", 1.0, 0.0, text=HOSTILE, prompt=HOSTILE,
                             finish_reason="stop", request_id=f"{HOSTILE[:60]}{i}")
              for i in range(3)]
    injector.send_and_wait(frames)
    keyed(injector, "/api/pause", reason=HOSTILE)
    v = visit()
    page = v.page
    expect(page.locator("#latest")).to_contain_text("<img src=x")
    for order in ("worst", "newest"):
        v.open("#outputs")
        page.locator(f"input[value={order}]").check()
        first = page.locator("#outputs-list details").first
        first.locator("summary").click()
        expect(first.locator("pre").last).to_have_text(HOSTILE)
    v.open("#history")
    for summary in page.locator("#history summary").all():
        summary.click()
    assert page.locator("main img, main script, main a[href^=javascript]").count() == 0
    assert page.evaluate("window.hacked") is None
    v.is_clean()
    # Were a text ever taken for markup, the policy would still not run it.
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.hacked=4\">')")
    page.evaluate("""() => { const s = document.createElement('script'); s.textContent = 'window.hacked=5';
                             document.body.append(s); }""")
    page.wait_for_timeout(200)
    assert page.evaluate("window.hacked") is None
    policy = injector.system.get("controller", "/")[1]["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy


@pytest.mark.parametrize("settings", [{"viewport": PHONE}, {"color_scheme": "dark"}],
                         ids=["phone", "dark"])
def test_every_view_fits_and_is_readable(injector, visit, settings):
    trial = keyed(injector, "/api/params", params={"temperature": 1.5})
    injector.send_and_wait(injector.frames(40, trial, lambda _: injector.near(0.7)))
    v = visit(**settings)
    page = v.page
    for view in ("live", "outputs", "history", "experiments", "engines"):
        v.open("#" + view)
        expect(page.locator(f"#view-{view} h2").first).to_be_visible()
        width = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert width[0] <= width[1], f"{view} is wider than the screen: {width}"
    ground, ink = page.evaluate("[getComputedStyle(document.body).backgroundColor, "
                                "getComputedStyle(document.body).color]")
    light = [sum(map(int, re.findall(r"\d+", c)[:3])) / 3 for c in (ground, ink)]
    is_dark = settings.get("color_scheme") == "dark"
    assert (light[0] < light[1]) == is_dark and abs(light[0] - light[1]) > 150
    v.is_clean()


def test_the_range_of_the_reward_chart(injector, visit):
    """Sums of the chosen time, not the last rows only; the numbers are the rows' own."""
    injector.send_and_wait(injector.frames(5000, None, lambda _: injector.near(0.6)))
    v = visit()
    page = v.page
    answers = []
    page.on("response", lambda r: "/api/series" in r.url and answers.append(r))
    page.get_by_label("Show", exact=False).first.select_option("24 hours")
    page.wait_for_timeout(2000)
    series = next(r for r in answers if "hours=24" in r.url).json()["rewards"]
    points = [p["champion"] for p in series]
    assert sum(p["n"] for p in points) == 5000
    mean = sum(p["n"] * p["mean"] for p in points) / 5000
    stored, = injector.system.rows("SELECT avg(reward) FROM scores")[0]
    assert abs(mean - stored) < 1e-9
    assert points[-1]["lower"] < mean < points[-1]["upper"]
    v.is_clean()


def test_pause_all_routes_by_button(injector, visit):
    trial = keyed(injector, "/api/params", params={"temperature": 1.5})
    v = visit()
    page = v.page
    expect(page.locator("#kill-switch")).to_be_hidden()
    page.get_by_role("button", name="Kill switch").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("on every route")
    dialog.get_by_label("Reason").fill("<b>odd</b> answers")
    dialog.get_by_label("Admin key").fill(KEY)
    dialog.get_by_role("button", name="Pause all").click()
    expect(page.locator("#news")).to_contain_text("All routes are paused")
    expect(page.locator("#kill-switch")).to_contain_text("<b>odd</b> answers")
    expect(page.locator("#steer").get_by_role("button", name="Push a change")).to_have_count(0)
    last = injector.decisions()[-1]
    assert (last["action"], injector.route()["challenger"]) == ("hold", None), trial
    page.get_by_role("link", name="Engines").click()  # the way back is on every view
    page.locator("#kill-switch").get_by_role("button", name="Resume all routes").click()
    dialog.get_by_role("button", name="Resume all").click()
    expect(page.locator("#kill-switch")).to_be_hidden()
    assert injector.decisions()[-1]["action"] == "resume"
    v.is_clean()
