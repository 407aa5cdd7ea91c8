// Plays a film: a picture that can be drawn for every moment, and moments worth stopping at.
import { h, put } from "../dom.js";
import { duration } from "../format.js";

const WHOLE_S = 12; // seconds that a film takes at speed 1, however long it is in reality
const STOP_MS = 1200; // with reduced motion, how long each moment is shown
const SPEEDS = [0.25, 0.5, 1, 2, 4];
const calm = matchMedia("(prefers-reduced-motion: reduce)");

/** A player in `place`; `moved(t)` hears where the reader stopped, `told(text)` what to read out. */
export function player(place, { moved, told }) {
  let film = null;
  let t = 0;
  let index = 0;
  let speed = 1;
  let frame = null;
  let timer = null;

  const play = h(
    "button",
    { type: "button", class: "main", id: "play", onclick: () => (playing() ? pause() : start()) },
    "▶ Play",
  );
  const scrub = h("input", {
    type: "range",
    id: "scrub",
    min: 0,
    max: 1000,
    step: 1,
    "aria-label": "Moment of the step",
    oninput: () => {
      halt();
      seek(film.from + ((film.to - film.from) * scrub.value) / 1000);
      later();
    },
  });
  const rate = h(
    "select",
    {
      id: "speed",
      "aria-label": "Speed",
      onchange: () => {
        speed = Number(rate.value);
      },
    },
    SPEEDS.map((one) => h("option", { value: one, selected: one === 1 }, `${one}×`)),
  );
  const clock = h("output", { id: "clock", class: "clock" });
  put(
    place,
    h(
      "div",
      { class: "player" },
      h(
        "button",
        { type: "button", id: "back", "aria-label": "Step back", title: "Step back (←)", onclick: () => step(-1) },
        "◀|",
      ),
      play,
      h(
        "button",
        {
          type: "button",
          id: "forth",
          "aria-label": "Step forward",
          title: "Step forward (→)",
          onclick: () => step(1),
        },
        "|▶",
      ),
      rate,
      scrub,
      clock,
    ),
  );

  const playing = () => frame !== null || timer !== null;

  function halt() {
    cancelAnimationFrame(frame);
    clearInterval(timer);
    frame = timer = null;
    play.textContent = "▶ Play";
  }

  function pause() {
    halt();
    later();
    told(film.events[index]?.text ?? "");
  }

  function start() {
    if (t >= film.to) seek(film.from);
    play.textContent = "❚❚ Pause";
    if (calm.matches) {
      timer = setInterval(() => (index + 1 < film.events.length ? jump(index + 1) : pause()), STOP_MS / speed);
      return;
    }
    let before = performance.now();
    const go = (now) => {
      seek(t + (((now - before) / 1000) * speed * (film.to - film.from)) / WHOLE_S);
      before = now;
      frame = t >= film.to ? null : requestAnimationFrame(go);
      if (frame === null) pause();
    };
    frame = requestAnimationFrame(go);
  }

  function seek(moment) {
    t = Math.min(Math.max(moment, film.from), film.to);
    index = Math.max(
      0,
      film.events.findLastIndex(({ at_s }) => at_s <= t + 1e-12),
    );
    shown();
  }

  function jump(to) {
    index = Math.min(Math.max(to, 0), film.events.length - 1);
    t = Math.min(film.events[index].at_s, film.to);
    shown();
  }

  function step(by) {
    halt();
    const between = by < 0 && t > film.events[index].at_s + 1e-12;
    jump(between ? index : index + by);
    told(film.events[index].text);
    later();
  }

  function shown() {
    const real = Math.max(t, 0);
    scrub.value = (1000 * (t - film.from)) / (film.to - film.from);
    scrub.setAttribute("aria-valuetext", `${duration(real)} of ${duration(film.to)}`);
    clock.textContent = film.clock
      ? film.clock(t)
      : `${(real / film.scale).toFixed(film.digits)} of ${duration(film.to)}`;
    clock.dataset.value = t;
    film.show(t, film.events[index], index);
  }

  let saving = null;
  function later() {
    clearTimeout(saving);
    saving = setTimeout(() => moved(t > film.from ? t : null), 200);
  }

  addEventListener("keydown", (event) => {
    if (
      !film ||
      event.altKey ||
      event.ctrlKey ||
      event.metaKey ||
      event.target.closest("input, select, textarea, summary, dialog, [role=tab]")
    )
      return;
    if (event.key === " " && !event.target.closest("button, a")) {
      event.preventDefault();
      play.click();
    } else if (event.key === "ArrowRight") {
      event.preventDefault();
      step(1);
    } else if (event.key === "ArrowLeft") {
      event.preventDefault();
      step(-1);
    }
  });

  return {
    /** Show another film at the moment `at`; one that was playing goes on. */
    load(next, at = null) {
      const going = playing();
      halt();
      const scale = next.to >= 1 ? 1 : next.to >= 1e-3 ? 1e-3 : 1e-6; // as `duration` writes it
      film = { scale, digits: Math.max(0, 3 - Math.floor(Math.log10(next.to / scale))), ...next };
      seek(Number.isFinite(at) && at !== null ? at : film.from);
      if (going && t < film.to) start();
    },
    /** Go to a moment. */
    go(moment) {
      halt();
      seek(moment);
      told(film.events[index].text);
      later();
    },
    pause: halt,
    get at() {
      return t;
    },
  };
}
