// API: every route, what it takes, and a command that asks it about the run of the address.
import { ask } from "../ask.js";
import { at, copying, h, put } from "../dom.js";
import * as state from "../state.js";
import { table, wide, words } from "../table.js";

const TEXT = "model: llama-3.1-8b\ncluster: dgx-h100";
let schemas = {};

/** A schema without references. */
function meant(schema) {
  const name = schema?.$ref?.split("/").pop();
  return name ? { ...schemas[name], ...schema, $ref: undefined, named: name } : (schema ?? {});
}

/** The type of a schema in a few words, with its bounds. */
function kind(given) {
  const schema = meant(given);
  if (schema.enum) return schema.enum.join(" | ");
  if (schema.const !== undefined) return String(schema.const);
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) return [...new Set(choices.map(kind).filter((one) => one !== "null"))].join(" or ");
  if (schema.allOf) return kind(schema.allOf[0]);
  if (schema.type === "array") return `list of ${kind(schema.items)}${bounds(schema)}`;
  return `${schema.named ?? schema.type ?? "anything"}${bounds(schema)}`;
}

function bounds(schema) {
  const {
    minimum: least,
    exclusiveMinimum: above,
    maximum: most,
    exclusiveMaximum: below,
    maxLength,
    minItems,
    maxItems,
  } = schema;
  const said = [
    least !== undefined && `≥ ${short(least)}`,
    above !== undefined && `> ${short(above)}`,
    most !== undefined && `≤ ${short(most)}`,
    below !== undefined && `< ${short(below)}`,
    maxLength !== undefined && `≤ ${short(maxLength)} letters`,
    minItems !== undefined && `at least ${minItems}`,
    maxItems !== undefined && `at most ${maxItems}`,
  ].filter(Boolean);
  return said.length ? ` (${said.join(", ")})` : "";
}

const short = (number) => number.toLocaleString("en-US");

/** A value that the schema takes, about the run of the address. */
function example(given, name = "") {
  const schema = meant(given);
  if (schema.named === "AskedRun") return tidy(state.run());
  if (schema.examples?.length) return schema.examples[0];
  if (schema.default !== undefined && schema.default !== null) return schema.default;
  if (schema.enum) return schema.enum[0];
  const choice = (schema.anyOf ?? schema.oneOf ?? schema.allOf)?.find((one) => one.type !== "null");
  if (choice) return example(choice, name);
  if (schema.type === "object" && schema.properties) {
    const needed = Object.entries(schema.properties).filter(([key]) => schema.required?.includes(key));
    return Object.fromEntries(needed.map(([key, inner]) => [key, example(inner, key)]));
  }
  if (schema.type === "array") return Array.from({ length: schema.minItems ?? 0 }, () => example(schema.items, name));
  if (schema.type === "integer" || schema.type === "number") return Math.max(schema.minimum ?? 1, 1);
  return schema.type === "boolean" ? false : schema.type === "object" ? {} : name === "text" ? TEXT : "…";
}

const tidy = (run) =>
  Object.fromEntries(Object.entries(run).filter(([, value]) => typeof value !== "object" || Object.keys(value).length));
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
const bodyOf = (route) => Object.values(route.requestBody?.content ?? {})[0]?.schema;

function command(path, route) {
  const filled = path.replace(/\{(\w+)\}/g, (_, name) =>
    encodeURIComponent(example(route.parameters.find((one) => one.name === name)?.schema, name)),
  );
  const body = bodyOf(route);
  return (
    `curl -s ${new URL(`.${filled}`, location.href)}` +
    (body ? ` \\\n  -H 'content-type: application/json' \\\n  -d ${quoted(JSON.stringify(example(body)))}` : "")
  );
}

function fields(schema) {
  const { properties = {}, required = [] } = meant(schema);
  return fieldTable(Object.entries(properties).map(([name, inner]) => row(name, inner, required.includes(name))));
}

const fieldTable = (rows) =>
  wide("Fields", table([words("field"), words("type"), words("meaning")], rows, { class: "fields" }));

/** The fields of a body, and those of the descriptions inside it. */
function described(schema) {
  const inside = Object.values(meant(schema).properties ?? {})
    .flatMap((one) => [one, one.items, ...(one.anyOf ?? [])])
    .map(meant)
    .filter((one) => one.named && one.properties);
  const once = [...new Map(inside.map((one) => [one.named, one])).values()];
  return [
    h("h3", {}, `Body: ${meant(schema).title ?? ""}`),
    fields(schema),
    ...once.map((one) => h("details", { class: "small" }, h("summary", {}, `The fields of ${one.named}`), fields(one))),
  ];
}

function row(name, inner, isNeeded) {
  const usual =
    inner.default !== undefined && inner.default !== null ? `Usually ${JSON.stringify(inner.default)}.` : "";
  const needed = isNeeded && h("span", { class: "needed", title: "must be given" }, " *");
  return [
    [h("code", {}, name), needed].filter(Boolean),
    kind(inner),
    [inner.description, usual].filter(Boolean).join(" "),
  ];
}

function shownRoute(method, path, route) {
  const body = bodyOf(route);
  const text = command(path, route);
  const copied = copying(() => text, "copied");
  const copy = h("button", { type: "button", class: "quiet", onclick: copied }, "copy");
  return h(
    "details",
    { class: "route", data: { route: `${method} ${path}` }, id: `${method}${path.replaceAll(/[^\w]+/g, "-")}` },
    h(
      "summary",
      {},
      h("span", { class: `method ${method}` }, method.toUpperCase()),
      h("code", {}, path),
      h("span", { class: "summary" }, route.summary ?? ""),
    ),
    route.description && h("p", {}, route.description.replaceAll("`", "")),
    route.parameters?.length > 0 &&
      fieldTable(
        route.parameters.map((one) =>
          row(one.name, { ...one.schema, description: one.description ?? one.schema?.description }, one.required),
        ),
      ),
    body && described(body),
    h("div", { class: "head" }, h("h3", {}, "Ask it"), copy),
    h("pre", { tabindex: "0" }, text),
  );
}

function shown(paths) {
  const open = new Set([...document.querySelectorAll("details[open]")].map((one) => one.id));
  if (state.get("api.route")) open.add(state.get("api.route"));
  const groups = new Map();
  for (const [path, methods] of Object.entries(paths))
    for (const [method, route] of Object.entries(methods)) {
      const tag = route.tags?.[0] ?? "other";
      groups.set(tag, [...(groups.get(tag) ?? []), shownRoute(method, path, route)]);
    }
  put(
    at("routes"),
    [...groups].map(([tag, routes]) => h("section", { class: "panel" }, h("h2", {}, tag), routes)),
  );
  for (const one of document.querySelectorAll("details.route")) {
    one.open = open.has(one.id);
    one.addEventListener(
      "toggle",
      () => one.open !== (state.get("api.route") === one.id) && state.set({ "api.route": one.open ? one.id : null }),
    );
  }
}

const document_ = await ask("openapi.json");
schemas = document_.components?.schemas ?? {};
put(at("about"), document_.info.description);
shown(document_.paths);
