"use strict";
// Follows the theme of Airflow, refreshes drawings in place, posts for buttons, opens links to Airflow outside the frame.
// Runs before the body is parsed: no wrong theme is painted, and no button is visible before it works.

const framed = window.parent !== window;
const outer = framed ? window.parent.document : document;

function followTheme() {
  const classes = outer.documentElement.classList;
  const isSet = classes.contains("dark") || classes.contains("light");
  const dark = isSet ? classes.contains("dark") : window.matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
}

function say(words, refused) {
  const said = document.getElementById("said");
  said.textContent = words;
  said.classList.toggle("refused", refused);
  said.hidden = false;
}

async function renew() {
  const live = document.getElementById("live");
  const answer = await fetch(window.location.href, { headers: { Accept: "text/html" } });
  if (!answer.ok) {
    say(answer.status === 401 ? "Your login has expired. Reload the page." : "The page could not be refreshed. Reload it.", true);
    return;
  }
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("live");
  const opened = live.querySelector("details")?.open;
  const focused = live.contains(document.activeElement) ? addressOf(document.activeElement) : null;
  replaceChanged(live, fresh);
  if (opened) live.querySelector("details")?.setAttribute("open", "");
  if (focused) live.querySelector(focused)?.focus({ preventScroll: true });
}

function addressOf(element) {
  // finds the element again after the refresh: a keyboard user stays where they are
  if (element.id) return `#${CSS.escape(element.id)}`;
  const name = ["href", "data-post", "name"].find((each) => element.hasAttribute(each));
  return name ? `${element.localName}[${name}="${CSS.escape(element.getAttribute(name))}"]` : null;
}

function replaceChanged(live, fresh) {
  // what did not change stays: it keeps its focus and its selected text, and is not painted again
  const old = [...live.childNodes];
  const next = [...fresh.childNodes];
  for (let at = old.length; at > next.length; at--) old[at - 1].remove();
  next.forEach((node, at) => {
    if (at >= old.length) live.append(node);
    else if (!old[at].isEqualNode(node)) old[at].replaceWith(node);
  });
}

async function post(button) {
  button.disabled = true;
  try {
    const answer = await fetch(button.dataset.post, { method: "POST" });
    const body = await answer.json().catch(() => ({}));
    say(answer.ok ? body.said : String(body.detail ?? "The action failed without a message."), !answer.ok);
    await renew();
  } catch {
    say("Airflow does not answer.", true);
  } finally {
    button.disabled = false;
  }
}

async function submit(form, button) {
  const fields = Object.fromEntries(new FormData(form));
  button.disabled = true;
  try {
    const answer = await fetch(form.dataset.post + button.value, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(fields),
    });
    const body = await answer.json().catch(() => ({}));
    say(answer.ok ? body.said : wrong(body.detail), !answer.ok);
    if (answer.ok && body.run_id) {
      const link = document.createElement("a");
      link.href = `${form.dataset.airflow}/dags/${encodeURIComponent(body.dag_id)}/runs/${encodeURIComponent(body.run_id)}`;
      link.dataset.leave = "";
      link.textContent = "Open the run";
      document.getElementById("said").append(" ", link);
    }
  } catch {
    say("Airflow does not answer.", true);
  } finally {
    button.disabled = false;
  }
}

function wrong(detail) {
  // a list names the fields
  if (!Array.isArray(detail)) return String(detail ?? "The action failed without a message.");
  return detail.map((each) => `${each.loc.slice(1).join(" ")}: ${each.msg}`).join("; ");
}

function leave(address) {
  // the frame must not navigate its parent, but a link of the parent may
  const link = outer.createElement("a");
  link.href = address;
  outer.body.append(link);
  link.click();
  link.remove();
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-post]");
  if (button) {
    post(button);
    return;
  }
  const link = event.target.closest("a[data-leave]");
  if (link && framed) {
    event.preventDefault();
    leave(link.getAttribute("href"));
  }
});

document.addEventListener("submit", (event) => {
  const form = event.target.closest("form[data-post]");
  if (form) {
    event.preventDefault();
    submit(form, event.submitter);
  }
});

followTheme();
new MutationObserver(followTheme).observe(outer.documentElement, { attributes: true, attributeFilter: ["class"] });

document.addEventListener("DOMContentLoaded", () => {
  const seconds = Number(document.getElementById("live").dataset.live);
  if (!seconds) return;
  setInterval(() => {
    if (!document.hidden) renew().catch(() => say("Airflow does not answer.", true));
  }, seconds * 1000);
});
