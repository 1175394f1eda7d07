// Requests to the server. The address may have a code after its #, which is exchanged once for the token;
// the token stays in this browser tab, and is in no history.

const KEPT = "rheos-token";
const AGAIN_MS = 2000;

export async function signIn() {
  const given = /[#&]code=([^&]+)/.exec(location.hash);
  if (given) {
    history.replaceState(null, "", "#/");
    const headers = { Authorization: `Code ${decodeURIComponent(given[1])}` };
    const answer = await fetch("api/v1/sign-in", { method: "POST", headers });
    if (answer.ok) keepToken((await answer.json()).token);
  }
  return sessionStorage.getItem(KEPT) !== null;
}

export function keepToken(token) {
  sessionStorage.setItem(KEPT, token);
}

export class Refused extends Error {
  constructor(status, error) {
    super(error.what ?? `the server answered ${status}`);
    this.status = status;
    this.hint = error.hint ?? null;
    this.place = error.file ? `${error.file}:${error.line}` : null;
  }
}

async function answered(path, options = {}) {
  const headers = { Authorization: `Bearer ${sessionStorage.getItem(KEPT) ?? ""}` };
  const answer = await fetch(`api/v1${path}`, { ...options, headers });
  if (!answer.ok) throw new Refused(answer.status, await answer.json().catch(() => ({})));
  return answer;
}

export async function get(path, signal) {
  return (await answered(path, { signal })).json();
}

export async function post(path, body) {
  return (await answered(path, { method: "POST", body: JSON.stringify(body) })).json();
}

// What a request came to: { data, problem }, of which one is null. Null when `signal` aborted it.
export async function asked(path, signal) {
  try {
    const data = await get(path, signal);
    return signal.aborted ? null : { data, problem: null };
  } catch (problem) {
    if (signal.aborted) return null;
    return { data: null, problem: problem instanceof Refused ? problem : away() };
  }
}

function away() {
  return new Refused(0, { what: "the server does not answer" });
}

// Resolves after this time, or when `signal` aborts.
export function later(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    }, { once: true });
  });
}

// Calls `heard(kind, data)` for each message of the server, until `signal` aborts. Connects again after
// the server, or the network, was away.
export async function listen(path, signal, heard) {
  while (!signal.aborted) {
    try {
      const reader = (await answered(path, { signal })).body
        .pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        text += value;
        const events = text.split("\n\n");
        text = events.pop();
        for (const event of events) {
          const [, kind, data] = /^event: (\w+)\ndata: (.*)$/s.exec(event) ?? [];
          if (kind) heard(kind, JSON.parse(data));
        }
      }
    } catch (error) {
      if (signal.aborted) return;
      const problem = error instanceof Refused ? error : away();
      heard("problem", { what: problem.message, hint: problem.hint, status: problem.status });
      if (problem.status === 401) return;
    }
    await later(AGAIN_MS, signal);
  }
}
