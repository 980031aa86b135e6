/*
 * Keeps an element fresh: fetches the page it is on again and takes the element of the same id.
 *
 *   <div id="live" data-refresh="10">…</div>
 *   <span data-refresh-note data-updated="Updated" data-stale="Not updated since"
 *       data-paused="Paused" data-signed-out="signed out"></span>
 *   <button data-refresh-pause data-pause="Pause" data-resume="Resume"
 *       data-pause-label="Pause updating" data-resume-label="Resume updating" hidden>Pause</button>
 *
 * Nothing is fetched while the page is hidden, while it is paused, or while the keyboard is inside
 * the element. Without this script the page is the same, and stands still.
 */
"use strict";

(() => {
    const live = document.querySelector("[data-refresh]");
    const button = document.querySelector("[data-refresh-pause]");
    const note = document.querySelector("[data-refresh-note]");
    if (!live || !button || !note) {
        return;
    }
    const words = note.dataset;
    const every = Number(live.dataset.refresh) * 1000;
    let paused = false;
    let timer = null;
    let asking = null;

    const clock = () => new Date().toLocaleTimeString([], { hour12: false });

    const opened = (element) =>
        Array.from(element.querySelectorAll("details"), (details) => details.open);

    const replace = (fresh) => {
        const were = opened(live);
        fresh.querySelectorAll("details").forEach((details, place) => {
            details.open = were[place] === true;
        });
        const scrolled = Array.from(live.querySelectorAll(".uj-scroll"), (box) => box.scrollLeft);
        live.replaceChildren(...fresh.childNodes);
        live.querySelectorAll(".uj-scroll").forEach((box, place) => {
            box.scrollLeft = scrolled[place] || 0;
        });
    };

    const refresh = async () => {
        asking = new AbortController();
        try {
            const answer = await fetch(window.location.href, {
                signal: asking.signal,
                credentials: "same-origin",
                headers: { Accept: "text/html" },
            });
            const page = new DOMParser().parseFromString(await answer.text(), "text/html");
            const fresh = page.getElementById(live.id);
            if (!answer.ok || !fresh) {
                throw new Error(answer.redirected ? words.signedOut : `status ${answer.status}`);
            }
            replace(document.importNode(fresh, true));
            note.textContent = `${words.updated} ${clock()}`;
            live.dataset.refreshed = String(Number(live.dataset.refreshed || 0) + 1);
        } catch (error) {
            if (error.name !== "AbortError") {
                note.textContent = `${words.stale} ${clock()}: ${error.message}`;
            }
        } finally {
            asking = null;
        }
    };

    const idle = () => paused || document.hidden || live.contains(document.activeElement);

    const schedule = () => {
        window.clearTimeout(timer);
        if (paused || document.hidden) {
            return;
        }
        timer = window.setTimeout(async () => {
            if (!idle()) {
                await refresh();
            }
            schedule();
        }, every);
    };

    const stop = () => {
        window.clearTimeout(timer);
        if (asking) {
            asking.abort();
        }
    };

    button.addEventListener("click", () => {
        paused = !paused;
        button.textContent = paused ? button.dataset.resume : button.dataset.pause;
        button.setAttribute("aria-label", paused ? button.dataset.resumeLabel : button.dataset.pauseLabel);
        note.textContent = paused ? words.paused : note.textContent;
        if (paused) {
            stop();
        } else {
            refresh().then(schedule);
        }
    });
    document.addEventListener("visibilitychange", () => {
        if (document.hidden) {
            stop();
        } else if (!paused) {
            refresh().then(schedule);
        }
    });

    button.hidden = false;
    note.textContent = `${words.updated} ${clock()}`;
    schedule();
})();
