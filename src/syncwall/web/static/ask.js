// Questions to the server.

/** A problem in words. */
export const problemText = ({ where, what }) => (where ? `${where}: ${what}` : what);

/** What the server refused, with the key that each problem is about. */
export class Refused extends Error {
  constructor(problems) {
    super(problems.map(problemText).join("\n"));
    this.problems = problems;
  }
}

/** What the server sends back; without a body it is a plain GET. */
async function sent(path, body, signal) {
  const written = { headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  const posted = { method: "POST", ...(body instanceof FormData ? { body } : written) };
  const answer = await fetch(`./api/${path}`, { signal, ...(body === undefined ? {} : posted) });
  if (!answer.ok) throw await refusal(answer);
  return answer;
}

/** The answer to `body`, or to a plain GET if there is none. */
export async function ask(path, body, { signal } = {}) {
  const answer = await sent(path, body, signal);
  return (answer.headers.get("content-type") ?? "").includes("json") ? answer.json() : answer.text();
}

/** Lines of JSON as they come: `told` hears each; aborting `signal` ends the work on the server. */
export async function follow(path, body, told, { signal } = {}) {
  const answer = await sent(path, body, signal);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      const said = JSON.parse(line);
      if (said.problems) throw new Refused(said.problems);
      told(said);
    }
  }
}

async function refusal(answer) {
  const text = await answer.text();
  try {
    const { problems } = JSON.parse(text);
    if (Array.isArray(problems)) return new Refused(problems);
  } catch {
    /* not JSON */
  }
  return new Refused([{ where: "", what: text.slice(0, 300) || `the server answered ${answer.status}` }]);
}

/** A function that asks only for the newest question: older ones are dropped, `wait_ms` gathers quick changes. */
export function newest(asked, wait_ms = 0) {
  let timer = null;
  let running = null;
  return (...given) => {
    clearTimeout(timer);
    running?.abort();
    const mine = new AbortController();
    running = mine;
    timer = setTimeout(async () => {
      try {
        await asked(mine.signal, ...given);
      } catch (error) {
        if (error.name !== "AbortError") throw error;
      }
    }, wait_ms);
  };
}
