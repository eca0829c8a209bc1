// The REST API of this port. Every call gives what was answered, or throws an Error that says what was wrong.

const POLL_MS = 300;

export async function ask(method, path, body) {
  const options = { method, headers: {} };
  if (body instanceof FormData) options.body = body;
  else if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["content-type"] = "application/json";
  }
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Error("The JobManager does not answer.");
  }
  const isText = !(answer.headers.get("content-type") || "").includes("json");
  const said = isText ? await answer.text() : await answer.json();
  if (!answer.ok) throw new Error(isText ? `${answer.status} ${answer.statusText}` : firstLine(said.errors));
  return said;
}

// A trigger is answered with an id; the end is asked for below `statusPath`.
export async function operation(path, body, statusPath) {
  const { "request-id": id } = await ask("POST", path, body);
  for (;;) {
    const { status, operation: result } = await ask("GET", `${statusPath}/${id}`);
    if (status.id === "COMPLETED") {
      const cause = result && (result["failure-cause"] || result.failureCause);
      if (cause) throw new Error(firstLine([cause["stack-trace"] || cause.class]));
      return result;
    }
    await new Promise((done) => setTimeout(done, POLL_MS));
  }
}

function firstLine(errors) {
  const text = String((errors || []).find((line) => line && line !== "Internal server error.") || "It failed.");
  const line = text.split("\n").find((part) => part && !part.startsWith("<Exception")) || text;
  return line.replace(/^[\w.$]+(?:Exception|Error): /, "");
}
