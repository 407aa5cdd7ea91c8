// Plays a film: a picture that can be drawn for every moment, and moments worth stopping at.
import { h, put } from "../dom.js";
import { duration } from "../format.js";

const WHOLE_S = 12; // seconds that a film takes at speed 1, however long it is in reality
const STOP_MS = 1200; // with reduced motion, how long each moment is shown
const SPEEDS = [0.25, 0.5, 1, 2, 4];
const REMEMBER_MS = 200;
const CONTROLS = "input, select, textarea, summary, dialog, [role=tab]";
const calm = matchMedia("(prefers-reduced-motion: reduce)");

/** A player in `place`; `moved(t)` hears where the reader stopped, `told(text)` what to read out. */
export class Player {
  #film = null;
  #index = 0;
  #frame = null;
  #timer = null;
  #saving = null;

  /** The moment that is shown. */
  at = 0;

  constructor(place, { moved, told }) {
    Object.assign(this, { moved, told });
    const button = (id, text, more) => h("button", { type: "button", id, ...more }, text);
    const step = (id, text, name, key, by) =>
      button(id, text, { "aria-label": name, title: `${name} (${key})`, onclick: () => this.#step(by) });
    const clicked = () => (this.#playing ? this.#pause() : this.#start());
    this.play = button("play", "▶ Play", { class: "main", onclick: clicked });
    const slid = () => this.#slid();
    const range = { type: "range", min: 0, max: 1000, step: 1, "aria-label": "Moment of the step" };
    this.scrub = h("input", { id: "scrub", ...range, oninput: slid });
    const speeds = SPEEDS.map((one) => h("option", { value: one, selected: one === 1 }, `${one}×`));
    this.speed = h("select", { id: "speed", "aria-label": "Speed" }, speeds);
    this.clock = h("output", { id: "clock", class: "clock" });
    const [back, forth] = [step("back", "◀|", "Step back", "←", -1), step("forth", "|▶", "Step forward", "→", 1)];
    put(place, h("div", { class: "player" }, back, this.play, forth, this.speed, this.scrub, this.clock));
    addEventListener("keydown", (event) => this.#pressed(event));
  }

  /** Show another film at the moment `at`; one that was playing goes on. */
  load(next, at = null) {
    const going = this.#playing;
    this.pause();
    const scale = next.to >= 1 ? 1 : next.to >= 1e-3 ? 1e-3 : 1e-6; // as `duration` writes it
    const digits = Math.max(0, 3 - Math.floor(Math.log10(next.to / scale)));
    const clock = (t) => `${(Math.max(t, 0) / scale).toFixed(digits)} of ${duration(next.to)}`;
    this.#film = { ...next, clock: next.clock ?? clock };
    this.#seek(Number.isFinite(at) ? at : next.from);
    if (going && this.at < next.to) this.#start();
  }

  /** Go to a moment. */
  go(moment) {
    this.pause();
    this.#seek(moment);
    this.#rest();
  }

  /** Stand still. */
  pause() {
    cancelAnimationFrame(this.#frame);
    clearInterval(this.#timer);
    this.#frame = this.#timer = null;
    this.play.textContent = "▶ Play";
  }

  get #playing() {
    return this.#frame !== null || this.#timer !== null;
  }

  #pause() {
    this.pause();
    this.#rest();
  }

  #start() {
    const { from, to, events } = this.#film;
    const speed = Number(this.speed.value);
    if (this.at >= to) this.#seek(from);
    this.play.textContent = "❚❚ Pause";
    if (calm.matches) {
      const next = () => (this.#index + 1 < events.length ? this.#jump(this.#index + 1) : this.#pause());
      this.#timer = setInterval(next, STOP_MS / speed);
      return;
    }
    let before = performance.now();
    const go = (now) => {
      const passed_s = (now - before) / 1000;
      this.#seek(this.at + (passed_s * Number(this.speed.value) * (to - from)) / WHOLE_S);
      before = now;
      this.#frame = requestAnimationFrame(go);
      if (this.at >= to) this.#pause();
    };
    this.#frame = requestAnimationFrame(go);
  }

  #seek(moment) {
    const { from, to, events } = this.#film;
    this.at = Math.min(Math.max(moment, from), to);
    const last = events.findLastIndex(({ at_s }) => at_s <= this.at + 1e-12);
    this.#index = Math.max(0, last);
    this.#shown();
  }

  #jump(to) {
    const { events, to: end } = this.#film;
    this.#index = Math.min(Math.max(to, 0), events.length - 1);
    this.at = Math.min(events[this.#index].at_s, end);
    this.#shown();
  }

  #step(by) {
    this.pause();
    const between = by < 0 && this.at > this.#film.events[this.#index].at_s + 1e-12;
    this.#jump(between ? this.#index : this.#index + by);
    this.#rest();
  }

  #slid() {
    const { from, to } = this.#film;
    this.pause();
    this.#seek(from + ((to - from) * this.scrub.value) / 1000);
    this.#remember();
  }

  #shown() {
    const { from, to, events, clock, show } = this.#film;
    this.scrub.value = (1000 * (this.at - from)) / (to - from);
    this.scrub.setAttribute("aria-valuetext", `${duration(Math.max(this.at, 0))} of ${duration(to)}`);
    this.clock.textContent = clock(this.at);
    this.clock.dataset.value = this.at;
    show(this.at, events[this.#index], this.#index);
  }

  /** Read out what is shown, and remember where. */
  #rest() {
    this.told(this.#film.events[this.#index]?.text ?? "");
    this.#remember();
  }

  #remember() {
    clearTimeout(this.#saving);
    this.#saving = setTimeout(() => this.moved(this.at > this.#film.from ? this.at : null), REMEMBER_MS);
  }

  #pressed(event) {
    if (!this.#film || event.altKey || event.ctrlKey || event.metaKey || event.target.closest(CONTROLS)) return;
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const plays = event.key === " " && !event.target.closest("button, a");
    if (!by && !plays) return;
    event.preventDefault();
    if (by) this.#step(by);
    else this.play.click();
  }
}
