// Addresses of the page, which are the part after the #. A link to any of them can be kept: it names the
// job by its key, which stays the same when the job's driver is started again.
//
//   #/                          the list of jobs
//   #/job/KEY/TAB               a job
//   #/job/KEY/operators/ID      an operator of it
//   #/rest                      what REST can be asked for

export function routeOf(hash) {
  const [, view = "", ...rest] = hash.split("/");
  const [key = null, tab = null, operator = null] = rest.map(decoded);
  return view === "job" && key ? { view, key, tab, operator } : { view: view === "rest" ? "rest" : "jobs" };
}

export function jobAddress(key, tab = "overview", operator = null) {
  return `#/${["job", key, tab, ...(operator === null ? [] : [operator])]
    .map((part, n) => (n === 0 ? part : encodeURIComponent(part))).join("/")}`;
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
