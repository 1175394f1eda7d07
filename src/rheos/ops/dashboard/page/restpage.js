// What REST can be asked for, from its OpenAPI document.

import { element, table } from "./elements.js";

export async function showRest(view, signal) {
  const said = await (await fetch("openapi.json", { signal })).json();
  const operations = Object.entries(said.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })));
  view.replaceChildren(
    element("h1", {}, "REST"),
    element("p", {}, "All that this page shows and does is there as JSON, under a token: ",
      element("code", {}, "Authorization: Bearer TOKEN"), ". The whole description is ",
      element("a", { href: "openapi.json" }, "openapi.json"), "."),
    table([
      { heading: "method", cell: ({ method }) => element("code", {}, method.toUpperCase()) },
      { heading: "path", wide: true, cell: ({ path }) => element("code", {}, path) },
      { heading: "what it does", wide: true, cell: ({ operation }) => operation.summary },
      { heading: "parameters", cell: ({ operation }) => parameters(said, operation) },
      { heading: "role", cell: ({ operation }) => /'(\w+)'/.exec(operation.description)?.[1] },
    ], operations));
}

function parameters(said, operation) {
  const query = operation.parameters.filter((each) => each.in === "query").map((each) => `${each.name}=`);
  const reference = operation.requestBody?.content["application/json"].schema.$ref;
  const body = reference ? said.components.schemas[reference.split("/").pop()].properties : {};
  return [...query, ...Object.keys(body ?? {})].join(", ");
}
