// The plan of a query, as a tree: rows flow from the leaves to the result.

import { h, count } from "./dom.js";

// Returns the tree of a reply of explain. Of a pipeline, the first stages are a query.
export function drawPlan(reply) {
  const [query, ...stages] = reply.stages ?? [{ $cursor: reply }];
  const { winningPlan } = query.$cursor.queryPlanner;
  const own = winningPlan.flagstone;
  if (!own) {
    return h("div", { class: "plan" }, h("p", { class: "empty" }, "There is no such collection."));
  }
  const { plan, alternatives, sorts, order, actual } = own;
  const isIndex = !plan.access.startsWith("scan");
  const most = Math.max(1, actual?.documents ?? 0, actual?.entries ?? 0, plan.rows);
  const leaves = [
    branch(
      node(plan.access, {
        kind: isIndex ? "index" : "scan",
        facts: [`about ${count(plan.rows)} rows`, `cost ${count(plan.cost)}`],
        notes: plan.notes,
        flow: actual && (actual.entries || actual.documents),
        unit: actual?.entries ? "entries" : "documents",
        most,
      }),
    ),
    ...alternatives.map((other) =>
      branch(
        node(other.access, {
          kind: "other",
          facts: ["not chosen", `about ${count(other.rows)} rows`, `cost ${count(other.cost)}`],
          notes: other.notes,
          most,
        }),
        [],
        "other",
      ),
    ),
  ];
  let tree = branch(
    node("Read and filter", {
      facts: actual
        ? [`${count(actual.matched)} of ${count(actual.documents)} documents match`]
        : [],
      flow: actual?.matched,
      unit: "documents",
      most,
    }),
    leaves,
  );
  if (sorts) {
    const spilled = actual?.spilled_runs ? [`${count(actual.spilled_bytes)} bytes spilled`] : [];
    tree = branch(
      node("Sort", {
        kind: "sort",
        facts: spilled,
        flow: actual?.matched,
        unit: "documents",
        most,
      }),
      [tree],
    );
  }
  const { skip, limit } = reply.command ?? {};
  const cut = [skip ? `skip ${count(skip)}` : null, limit ? `limit ${count(limit)}` : null];
  const isWhole = stages.length === 0;
  tree = branch(
    node(isWhole ? "Result" : "Input of the pipeline", {
      kind: isWhole ? "result" : "",
      facts: [`order: ${order}`, ...cut.filter(Boolean)],
      flow: actual?.rows,
      unit: "rows",
      most,
    }),
    [tree],
  );
  for (const [at, stage] of stages.entries()) {
    const [name, argument] = Object.entries(stage)[0];
    const kind = at === stages.length - 1 ? "result" : "";
    tree = branch(node(name, { kind, notes: [JSON.stringify(argument)], most }), [tree]);
  }
  return h("div", { class: "plan" }, h("ul", { class: "tree" }, tree));
}

function branch(element, children = [], kind = null) {
  const inner = children.length > 0 ? h("ul", {}, children) : null;
  return h("li", { class: kind }, element, inner);
}

function node(title, { kind = "", facts = [], notes = [], flow, unit, most }) {
  const hasFlow = flow !== undefined && flow !== null;
  const part = hasFlow ? flow / most : 0;
  return h(
    "div",
    { class: `node ${kind}` },
    h("strong", {}, title),
    hasFlow
      ? h(
          "div",
          { class: "flow" },
          h(
            "span",
            { class: "track" },
            h("i", { style: { width: `${Math.max(1, part * 100)}%` } }),
          ),
          h("span", { class: "figure" }, `${count(flow)} ${unit}`),
        )
      : null,
    facts.map((fact) => h("span", { class: "fact" }, fact)),
    notes.map((note) => h("small", {}, note)),
  );
}
