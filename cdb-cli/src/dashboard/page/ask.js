// Requests to the server. Each carries the token from the address that the terminal shows, which all windows of this address know.

const given = location.hash.match(/^#token=(\w+)$/);
if (given) {
  localStorage.setItem("cdb-token", given[1]);
  history.replaceState(null, "", "#/overview");
}

const token = () => localStorage.getItem("cdb-token") || "";

// The address of an event stream, for which a browser sends no header.
export const stream = (path, parameters) => `/api/${path}?${new URLSearchParams({ ...parameters, token: token() })}`;

async function answer(response) {
  const text = await response.text();
  let body;
  try { body = JSON.parse(text); } catch { body = { error: text }; }
  if (response.ok) return body;
  throw Object.assign(new Error(body.error || `the server answers ${response.status}`), { status: response.status });
}

async function send(path, options) {
  try {
    return await fetch(path, options);
  } catch {
    throw new Error("the dashboard does not answer; start the dashboard again and reload this page");
  }
}

export async function ask(path, parameters = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) if (value) query.set(name, value);
  return answer(await send(`/api/${path}?${query}`, { headers: { "x-cdb-token": token() } }));
}

export async function change(path, body = {}) {
  const headers = { "content-type": "application/json", "x-cdb-token": token() };
  return answer(await send(`/api/${path}`, { method: "POST", headers, body: JSON.stringify(body) }));
}

export const part = encodeURIComponent;
