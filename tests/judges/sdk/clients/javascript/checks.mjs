// Checks of Microsoft's JavaScript client against an emulator with three physical partitions.
//
// Arguments: endpoint, key, the file of the shared queries. Prints one JSON line per check.

import { readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import { CosmosClient, ChangeFeedStartFrom, ChangeFeedMode, PermissionMode } from "@azure/cosmos";

const [endpoint, key, file] = process.argv.slice(2);
const shared = JSON.parse(readFileSync(file, "utf8"));
const connectionPolicy = { retryOptions: { maxRetryAttemptCount: 1 } };
const client = new CosmosClient({ endpoint, key, connectionPolicy });
const checks = [];

function check(area, name, run, declared) {
  checks.push({ area, name, run, declared });
}

function equal(found, expected) {
  if (!isDeepStrictEqual(found, expected)) {
    throw new Error(`found ${JSON.stringify(found)}, expected ${JSON.stringify(expected)}`);
  }
}

function holds(condition, message) {
  if (!condition) throw new Error(message);
}

async function refused(promise, code) {
  try {
    await promise;
  } catch (error) {
    equal(error.code, code);
    return error;
  }
  throw new Error(`status ${code} was expected`);
}

const own = (item) => Object.fromEntries(Object.entries(item).filter(([name]) => !name.startsWith("_")));
const sorted = (rows) => [...rows].sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
const range = (n) => [...Array(n).keys()];

async function created(database, definition = {}, options) {
  const { container } = await database.containers.create({ id: "c", partitionKey: { paths: ["/pk"], version: 2 }, ...definition }, options);
  return container;
}

async function filled(database, definition, count = 30) {
  const container = await created(database, definition);
  const operations = range(count).map((n) => ({
    operationType: "Create", partitionKey: `p${n % 10}`, resourceBody: { id: `${n}`.padStart(3, "0"), pk: `p${n % 10}`, n },
  }));
  await container.items.executeBulkOperations(operations);
  return container;
}

async function rows(container, query, options) {
  return (await container.items.query(query, options).fetchAll()).resources;
}

// Queries that all clients share.
const tables = new Map();
async function table() {
  if (!tables.has("shared")) {
    const { database } = await client.databases.create({ id: "shared" });
    const container = await created(database);
    for (const document of shared.documents) await container.items.create(document);
    tables.set("shared", container);
  }
  return tables.get("shared");
}
for (const { area, sql, key, parameters, rows: expected, unordered, own: strip, declared } of shared.cases) {
  check(area, sql, async () => {
    const query = parameters ? { query: sql, parameters } : sql;
    let found = await rows(await table(), query, key ? { partitionKey: key } : {});
    if (strip) found = found.map(own);
    equal(unordered ? sorted(found) : found, unordered ? sorted(expected) : expected);
  }, declared?.javascript);
}

check("account", "the account document names its regions", async () => {
  const { resource } = await client.getDatabaseAccount();
  holds(resource.writableLocations.length === 1 && resource.consistencyPolicy === "Session", JSON.stringify(resource));
});
check("databases", "create, read, delete", async () => {
  await client.databases.create({ id: "life" });
  equal((await client.database("life").read()).resource.id, "life");
  await refused(client.databases.create({ id: "life" }), 409);
  await client.database("life").delete();
  await refused(client.database("life").read(), 404);
});
check("databases", "createIfNotExists", async () => {
  equal((await client.databases.createIfNotExists({ id: "maybe" })).statusCode, 201);
  equal((await client.databases.createIfNotExists({ id: "maybe" })).statusCode, 200);
});
check("databases", "list and query", async (database) => {
  const all = (await client.databases.readAll().fetchAll()).resources;
  holds(all.some((each) => each.id === database.id), "the list lacks the database");
  const query = { query: "SELECT * FROM d WHERE d.id = @id", parameters: [{ name: "@id", value: database.id }] };
  equal((await client.databases.query(query).fetchAll()).resources.map((each) => each.id), [database.id]);
});

check("containers", "a definition is kept", async (database) => {
  const indexingPolicy = {
    indexingMode: "consistent", automatic: true, includedPaths: [{ path: "/*" }], excludedPaths: [{ path: "/blob/?" }, { path: '/"_etag"/?' }],
    compositeIndexes: [[{ path: "/a", order: "ascending" }, { path: "/b", order: "descending" }]],
    spatialIndexes: [{ path: "/place/*", types: ["Point", "Polygon"] }],
  };
  const container = await created(database, { indexingPolicy, defaultTtl: 60, uniqueKeyPolicy: { uniqueKeys: [{ paths: ["/email"] }] } });
  const { resource } = await container.read();
  equal(resource.indexingPolicy.compositeIndexes, indexingPolicy.compositeIndexes);
  equal(resource.indexingPolicy.spatialIndexes, indexingPolicy.spatialIndexes);
  equal(resource.uniqueKeyPolicy.uniqueKeys[0].paths, ["/email"]);
  equal(resource.defaultTtl, 60);
});
check("containers", "defaults of the definition", async (database) => {
  const { resource } = await (await created(database)).read();
  equal(resource.conflictResolutionPolicy, { mode: "LastWriterWins", conflictResolutionPath: "/_ts", conflictResolutionProcedure: "" });
  equal(resource.geospatialConfig, { type: "Geography" });
});
check("containers", "replace", async (database) => {
  const container = await created(database);
  const { resource } = await container.read();
  resource.defaultTtl = 10;
  await container.replace(resource);
  equal((await container.read()).resource.defaultTtl, 10);
});
check("containers", "delete, list and query", async (database) => {
  const container = await created(database);
  equal((await database.containers.readAll().fetchAll()).resources.map((each) => each.id), ["c"]);
  equal((await database.containers.query("SELECT * FROM c WHERE c.id = 'c'").fetchAll()).resources.length, 1);
  await container.delete();
  await refused(container.read(), 404);
});
check("containers", "a unique key", async (database) => {
  const container = await created(database, { uniqueKeyPolicy: { uniqueKeys: [{ paths: ["/email"] }] } });
  await container.items.create({ id: "1", pk: "p", email: "a" });
  await refused(container.items.create({ id: "2", pk: "p", email: "a" }), 409);
  await container.items.create({ id: "2", pk: "q", email: "a" });
});
check("containers", "quota and statistics", async (database) => {
  const container = await filled(database);
  const { headers, resource } = await container.read({ populateQuotaInfo: true, initialHeaders: { "x-ms-documentdb-populatepartitionstatistics": "true" } });
  holds(/documentsCount=30;/.test(headers["x-ms-resource-usage"]), headers["x-ms-resource-usage"]);
  holds(/collectionSize=/.test(headers["x-ms-resource-quota"]), headers["x-ms-resource-quota"]);
  const counts = resource.statistics.map((each) => each.documentCount);
  equal(counts.reduce((a, b) => a + b), 30);
});
check("containers", "empty lists of procedures, triggers, functions and conflicts", async (database) => {
  const container = await created(database);
  for (const list of [container.scripts.storedProcedures, container.scripts.triggers, container.scripts.userDefinedFunctions, container.conflicts]) {
    equal((await list.readAll().fetchAll()).resources, []);
  }
  equal((await container.scripts.storedProcedures.query("SELECT * FROM s").fetchAll()).resources, []);
});
check("containers", "version 1 of the partition key", async (database) => {
  const { container } = await database.containers.create({ id: "c", partitionKey: { paths: ["/pk"] } });
  const operations = range(60).map((n) => ({ operationType: "Create", partitionKey: `p${n}`, resourceBody: { id: `${n}`, pk: `p${n}`, n } }));
  const results = await container.items.executeBulkOperations(operations);
  equal(results.map((each) => each.response?.statusCode), range(60).map(() => 201));
  equal(await rows(container, "SELECT VALUE c.n FROM c ORDER BY c.n"), range(60));
  let seen = 0;
  for (const part of await container.getFeedRanges()) {
    const feed = container.items.getChangeFeedIterator({ changeFeedStartFrom: ChangeFeedStartFrom.Beginning(part) });
    while (feed.hasMoreResults) {
      const page = await feed.readNext();
      if (page.statusCode === 304) break;
      seen += page.result.length;
    }
  }
  equal(seen, 60);
});
check("containers", "computed properties", async (database) => {
  const computedProperties = [{ name: "lower", query: "SELECT VALUE LOWER(c.name) FROM c" }];
  const container = await created(database, { computedProperties });
  for (const [n, name] of ["Bob", "ANN", "cid"].entries()) await container.items.create({ id: `${n}`, pk: `p${n}`, name });
  equal((await container.read()).resource.computedProperties, computedProperties);
  equal(await rows(container, "SELECT VALUE c.name FROM c WHERE c.lower = 'ann'"), ["ANN"]);
  equal(await rows(container, "SELECT VALUE c.lower FROM c ORDER BY c.name", { partitionKey: "p0" }), ["bob"]);
  equal((await rows(container, "SELECT * FROM c", { partitionKey: "p0" }))[0].lower, undefined);
});
check("containers", "a sort by an indexed computed property", async (database) => {
  const container = await created(database, {
    computedProperties: [{ name: "lower", query: "SELECT VALUE LOWER(c.name) FROM c" }],
    indexingPolicy: { includedPaths: [{ path: "/*" }, { path: "/lower/?" }], excludedPaths: [{ path: '/"_etag"/?' }] },
  });
  for (const [n, name] of ["Bob", "ANN", "cid"].entries()) await container.items.create({ id: `${n}`, pk: `p${n}`, name });
  equal(await rows(container, "SELECT VALUE c.lower FROM c ORDER BY c.lower"), ["ann", "bob", "cid"]);
});

check("items", "create, read, replace, upsert, delete", async (database) => {
  const container = await created(database);
  const { item, resource } = await container.items.create({ id: "1", pk: "p", z: 1, a: { y: 2, b: [1, null] } });
  equal(own(resource), { id: "1", pk: "p", z: 1, a: { y: 2, b: [1, null] } });
  equal(own((await item.read()).resource), { id: "1", pk: "p", z: 1, a: { y: 2, b: [1, null] } });
  equal(own((await item.replace({ id: "1", pk: "p", n: 2 })).resource), { id: "1", pk: "p", n: 2 });
  equal((await container.items.upsert({ id: "1", pk: "p" })).statusCode, 200);
  equal((await container.items.upsert({ id: "2", pk: "p" })).statusCode, 201);
  equal((await item.delete()).statusCode, 204);
  equal((await item.read()).statusCode, 404);
});
check("items", "properties keep their order", async (database) => {
  const container = await created(database);
  await container.items.create({ zebra: 1, id: "1", pk: "p", apple: { z: 1, a: 2 } });
  const { resource } = await container.item("1", "p").read();
  equal(Object.keys(resource).slice(0, 4), ["zebra", "id", "pk", "apple"]);
  equal(Object.keys(resource.apple), ["z", "a"]);
  const [row] = await rows(container, "SELECT c.zebra, c.id, c.apple FROM c");
  equal(Object.keys(row), ["zebra", "id", "apple"]);
});
check("items", "an id is generated", async (database) => {
  const container = await created(database);
  const { resource } = await container.items.create({ pk: "p" });
  holds(resource.id.length > 10, resource.id);
});
check("items", "conditions by ETag", async (database) => {
  const container = await created(database);
  const { item, resource } = await container.items.create({ id: "1", pk: "p" });
  const accessCondition = { type: "IfMatch", condition: resource._etag };
  await item.replace({ id: "1", pk: "p", n: 1 }, { accessCondition });
  await refused(item.replace({ id: "1", pk: "p", n: 2 }, { accessCondition }), 412);
  await refused(item.delete({ accessCondition }), 412);
  const etag = (await item.read()).resource._etag;
  equal((await item.read({ accessCondition: { type: "IfNoneMatch", condition: etag } })).statusCode, 304);
});
check("items", "partition keys of all types", async (database) => {
  const container = await created(database);
  for (const [n, pk] of ["ä\"x", 1.5, true, null].entries()) {
    await container.items.create({ id: `${n}`, pk });
    equal((await container.item(`${n}`, pk).read()).resource.pk, pk);
  }
  await container.items.create({ id: "none" });
  equal((await container.item("none", undefined).read()).resource.id, "none");
});
check("items", "hierarchical partition keys", async (database) => {
  const { container } = await database.containers.create({ id: "h", partitionKey: { paths: ["/t", "/u"], kind: "MultiHash", version: 2 } });
  for (const t of ["x", "y"]) for (const u of ["1", "2"]) await container.items.create({ id: t + u, t, u });
  equal((await container.item("x1", ["x", "1"]).read()).resource.id, "x1");
  equal(await rows(container, "SELECT VALUE c.id FROM c ORDER BY c.id DESC"), ["y2", "y1", "x2", "x1"]);
});
check("items", "a time to live", async (database) => {
  const container = await created(database, { defaultTtl: -1 });
  await container.items.create({ id: "1", pk: "p", ttl: 1 });
  await new Promise((resolve) => setTimeout(resolve, 2100));
  equal((await container.item("1", "p").read()).statusCode, 404);
});
check("items", "the list of all items by page", async (database) => {
  const container = await filled(database);
  const pages = container.items.readAll({ maxItemCount: 7 });
  let seen = 0;
  while (pages.hasMoreResults()) seen += (await pages.fetchNext()).resources?.length ?? 0;
  equal(seen, 30);
});

check("patch", "all operations, as an array", async (database) => {
  const container = await created(database);
  const { item } = await container.items.create({ id: "1", pk: "p", n: 1, tags: ["x"], gone: 1, from: 1 });
  const { resource } = await item.patch([
    { op: "set", path: "/name", value: "new" }, { op: "add", path: "/tags/-", value: "y" }, { op: "incr", path: "/n", value: 41 },
    { op: "remove", path: "/gone" }, { op: "move", from: "/from", path: "/to" }, { op: "replace", path: "/tags/0", value: "z" },
  ]);
  equal(own(resource), { id: "1", pk: "p", n: 42, tags: ["z", "y"], name: "new", to: 1 });
});
check("patch", "a condition", async (database) => {
  const container = await created(database);
  const { item } = await container.items.create({ id: "1", pk: "p", n: 1 });
  const operations = [{ op: "incr", path: "/n", value: 1 }];
  equal((await item.patch({ condition: "from c where c.n = 1", operations })).resource.n, 2);
  await refused(item.patch({ condition: "from c where c.n = 1", operations }), 412);
});
check("patch", "an unknown path", async (database) => {
  const { item } = await (await created(database)).items.create({ id: "1", pk: "p" });
  await refused(item.patch([{ op: "replace", path: "/none", value: 1 }]), 400);
});

check("batch", "all operations", async (database) => {
  const container = await created(database);
  const { result } = await container.items.batch([
    { operationType: "Create", resourceBody: { id: "1", pk: "p" } }, { operationType: "Upsert", resourceBody: { id: "2", pk: "p" } },
    { operationType: "Replace", id: "1", resourceBody: { id: "1", pk: "p", n: 1 } },
    { operationType: "Patch", id: "1", resourceBody: { operations: [{ op: "incr", path: "/n", value: 1 }] } },
    { operationType: "Read", id: "1" }, { operationType: "Delete", id: "2" },
  ], "p");
  equal(result.map((each) => each.statusCode), [201, 201, 200, 200, 200, 204]);
  equal(result[4].resourceBody.n, 2);
});
check("batch", "a patch as an array", async (database) => {
  const container = await created(database);
  await container.items.create({ id: "1", pk: "p", n: 1 });
  const { result } = await container.items.batch([{ operationType: "Patch", id: "1", resourceBody: [{ op: "incr", path: "/n", value: 1 }] }], "p");
  equal(result[0].resourceBody.n, 2);
});
check("batch", "a failure undoes the others", async (database) => {
  const container = await created(database);
  const { result, code } = await container.items.batch([
    { operationType: "Create", resourceBody: { id: "1", pk: "p" } }, { operationType: "Delete", id: "none" },
  ], "p");
  equal([code, result.map((each) => each.statusCode)], [207, [424, 404]]);
  equal((await container.item("1", "p").read()).statusCode, 404);
});

check("bulk", "executeBulkOperations", async (database) => {
  const container = await filled(database, {}, 250);
  equal(await rows(container, "SELECT VALUE COUNT(1) FROM c"), [250]);
  const operations = range(250).map((n) => ({ operationType: "Delete", partitionKey: `p${n % 10}`, id: `${n}`.padStart(3, "0") }));
  const results = await container.items.executeBulkOperations(operations);
  equal(results.filter((each) => each.response?.statusCode !== 204), []);
});
check("bulk", "bulk with all operations", async (database) => {
  const container = await created(database);
  await container.items.create({ id: "1", pk: "p", n: 1 });
  const found = await container.items.bulk([
    { operationType: "Create", resourceBody: { id: "2", pk: "q" } }, { operationType: "Upsert", partitionKey: "r", resourceBody: { id: "3", pk: "r" } },
    { operationType: "Read", partitionKey: "p", id: "1" }, { operationType: "Replace", partitionKey: "p", id: "1", resourceBody: { id: "1", pk: "p", n: 2 } },
    { operationType: "Patch", partitionKey: "p", id: "1", resourceBody: { operations: [{ op: "incr", path: "/n", value: 1 }] } },
  ]);
  equal(found.map((each) => each.statusCode), [201, 201, 200, 200, 200]);
});

async function changes(container, options) {
  const feed = container.items.getChangeFeedIterator(options);
  const found = [];
  let token;
  for await (const page of feed.getAsyncIterator()) {
    token = page.continuationToken;
    if (page.statusCode === 304) break;
    found.push(...page.result);
  }
  return { found, token };
}
check("change feed", "from the beginning, then from the token", async (database) => {
  const container = await filled(database);
  const { found, token } = await changes(container, { changeFeedStartFrom: ChangeFeedStartFrom.Beginning(), maxItemCount: 4 });
  equal(found.length, 30);
  await container.items.upsert({ id: "new", pk: "p1" });
  const next = await changes(container, { changeFeedStartFrom: ChangeFeedStartFrom.Continuation(token) });
  equal(next.found.map((each) => each.id), ["new"]);
});
check("change feed", "of one partition key", async (database) => {
  const container = await filled(database);
  const { found } = await changes(container, { changeFeedStartFrom: ChangeFeedStartFrom.Beginning("p4") });
  equal(found.map((each) => each.n).sort(), [14, 24, 4]);
});
check("change feed", "from now", async (database) => {
  const container = await filled(database);
  equal((await changes(container, { changeFeedStartFrom: ChangeFeedStartFrom.Now() })).found, []);
});
check("change feed", "by feed range", async (database) => {
  const container = await filled(database);
  const parts = await container.getFeedRanges();
  const found = [];
  for (const part of parts) found.push(...(await changes(container, { changeFeedStartFrom: ChangeFeedStartFrom.Beginning(part) })).found);
  equal([parts.length, found.length], [3, 30]);
});
check("change feed", "all versions and deletes", async (database) => {
  const container = await created(database, { changeFeedPolicy: { retentionDuration: 10 } });
  await container.items.create({ id: "before", pk: "p" });
  const changeFeedMode = ChangeFeedMode.AllVersionsAndDeletes;
  const start = await changes(container, { changeFeedStartFrom: ChangeFeedStartFrom.Now(), changeFeedMode });
  const { item } = await container.items.create({ id: "1", pk: "p", n: 1 });
  await item.replace({ id: "1", pk: "p", n: 2 });
  await item.delete();
  const { found } = await changes(container, { changeFeedStartFrom: ChangeFeedStartFrom.Continuation(start.token), changeFeedMode });
  equal(found.map((each) => each.metadata.operationType), ["create", "replace", "delete"]);
  equal(found.map((each) => each.current?.n), [1, 2, undefined]);
  equal(found[2].metadata.id, "1");
});

check("read-many", "1,000 items by a filter", async (database) => {
  const container = await filled(database, {}, 100);
  const terms = range(1000).map((n) => `(c.id = @id${n} AND c.pk = @pk${n})`);
  const parameters = range(1000).flatMap((n) => [{ name: `@id${n}`, value: `${n}`.padStart(3, "0") }, { name: `@pk${n}`, value: `p${n % 10}` }]);
  const found = await rows(container, { query: `SELECT * FROM c WHERE ${terms.join(" OR ")}`, parameters });
  equal(found.length, 100);
});

check("pages", "pages have the requested size", async (database) => {
  const container = await filled(database);
  const pages = container.items.query("SELECT * FROM c", { maxItemCount: 2, partitionKey: "p3" });
  const sizes = [];
  while (pages.hasMoreResults()) sizes.push((await pages.fetchNext()).resources.length);
  equal(sizes, [2, 1]);
});
for (const partitions of ["all partitions", "one partition"]) {
  check("pages", `a sorted query resumes from its token, ${partitions}`, async (database) => {
    const container = await filled(database);
    const where = partitions === "one partition" ? "WHERE c.pk = 'p3' " : "";
    const sql = `SELECT VALUE c.n FROM c ${where}ORDER BY c.n`;
    const seen = [];
    let continuationToken;
    do {
      const pages = container.items.query(sql, { maxItemCount: 2, enableQueryControl: true, forceQueryPlan: true, continuationToken });
      const page = await pages.fetchNext();
      seen.push(...(page.resources ?? []));
      continuationToken = page.continuationToken;
    } while (continuationToken);
    equal(seen, partitions === "one partition" ? [3, 13, 23] : range(30));
  });
}
check("pages", "a page ends before 4 MB", async (database) => {
  const container = await created(database);
  for (let n = 0; n < 5; n += 1) await container.items.create({ id: `${n}`, pk: "p", text: "x".repeat(1_500_000) });
  const pages = container.items.query("SELECT * FROM c", { partitionKey: "p" });
  const sizes = [];
  while (pages.hasMoreResults()) sizes.push((await pages.fetchNext()).resources.length);
  equal(sizes, [2, 2, 1]);
});

check("metrics", "query metrics", async (database) => {
  const container = await filled(database);
  const page = await container.items.query("SELECT * FROM c WHERE c.n = 3", { partitionKey: "p3", populateQueryMetrics: true }).fetchNext();
  holds(page.requestCharge > 0, "no charge");
});
check("metrics", "index metrics", async (database) => {
  const container = await filled(database);
  const { headers } = await container.items.query("SELECT * FROM c WHERE c.n = 3", { partitionKey: "p3", populateIndexMetrics: true }).fetchNext();
  const text = headers["x-ms-cosmos-index-utilization"];
  const metrics = JSON.parse(decodeURIComponent(text));
  equal(metrics.Utilized.SingleIndexes[0].IndexSpec, "/n/?");
});

check("throughput", "of a container", async (database) => {
  const container = await created(database, {}, { offerThroughput: 500 });
  const { resource, offer } = await container.readOffer();
  equal(resource.content.offerThroughput, 500);
  resource.content.offerThroughput = 700;
  await offer.replace(resource);
  equal((await container.readOffer()).resource.content.offerThroughput, 700);
});
check("throughput", "autoscale", async (database) => {
  const container = await created(database, { maxThroughput: 1000 });
  const { resource } = await container.readOffer();
  equal(resource.content.offerAutopilotSettings.maxThroughput, 1000);
});
check("throughput", "the list of offers", async (database) => {
  await created(database);
  holds((await client.offers.readAll().fetchAll()).resources.length > 0, "no offers");
});

check("users", "users and permissions", async (database) => {
  const container = await created(database);
  const { user } = await database.users.create({ id: "u" });
  equal((await database.users.readAll().fetchAll()).resources.map((each) => each.id), ["u"]);
  const definition = { id: "p", permissionMode: PermissionMode.Read, resource: container.url };
  const { resource, permission } = await user.permissions.create(definition);
  equal([resource.permissionMode, resource.resource], ["Read", container.url]);
  holds(resource._token.startsWith("type=resource&ver=1"), resource._token);
  equal((await user.permissions.readAll().fetchAll()).resources.length, 1);
  equal((await permission.replace({ ...definition, permissionMode: PermissionMode.All })).resource.permissionMode, "All");
  equal((await user.permissions.upsert(definition)).statusCode, 200);
  await permission.delete();
  await refused(permission.read(), 404);
  equal((await user.replace({ id: "v" })).resource.id, "v");
  await database.user("v").delete();
  await refused(database.user("v").read(), 404);
});
async function limited(database, container, definition) {
  const { user } = await database.users.upsert({ id: "u" });
  const { resource } = await user.permissions.upsert({ id: "p", ...definition });
  return new CosmosClient({ endpoint, resourceTokens: { [definition.resource]: resource._token }, connectionPolicy })
    .database(database.id).container(container.id);
}
check("users", "a resource token that reads", async (database) => {
  const container = await filled(database);
  const reader = await limited(database, container, { permissionMode: PermissionMode.Read, resource: container.url });
  equal((await reader.item("003", "p3").read()).resource.n, 3);
  equal((await rows(reader, "SELECT * FROM c", { partitionKey: "p3" })).length, 3);
  await refused(reader.items.create({ id: "new", pk: "p" }), 403);
  await refused(reader.item("003", "p3").delete(), 403);
});
check("users", "a resource token that writes", async (database) => {
  const container = await filled(database);
  const writer = await limited(database, container, { permissionMode: PermissionMode.All, resource: container.url });
  equal((await writer.items.create({ id: "new", pk: "p" })).statusCode, 201);
});
check("users", "a resource token of one partition key", async (database) => {
  const container = await filled(database);
  const reader = await limited(database, container, { permissionMode: PermissionMode.Read, resource: container.url, resourcePartitionKey: ["p3"] });
  equal((await rows(reader, "SELECT * FROM c", { partitionKey: "p3" })).length, 3);
  await refused(reader.item("004", "p4").read(), 403);
  await refused(rows(reader, "SELECT * FROM c", { partitionKey: "p4" }), 403);
});
check("users", "a resource token of another container", async (database) => {
  const container = await filled(database);
  const { container: other } = await database.containers.create({ id: "other", partitionKey: "/pk" });
  const { user } = await database.users.create({ id: "u" });
  const { resource } = await user.permissions.create({ id: "p", permissionMode: PermissionMode.All, resource: other.url });
  const wrong = new CosmosClient({ endpoint, resourceTokens: { [container.url]: resource._token }, connectionPolicy });
  await refused(wrong.database(database.id).container("c").item("003", "p3").read(), 403);
});

check("delete by key", "deleteAllItemsForPartitionKey", async (database) => {
  const container = await filled(database);
  await container.deleteAllItemsForPartitionKey("p3");
  equal(await rows(container, "SELECT VALUE COUNT(1) FROM c"), [27]);
  equal((await container.item("003", "p3").read()).statusCode, 404);
});

const words = ["red bike for sale", "blue bicycle", "green red red car", "a car", "red house on a hill", "mountain bike trail bike"];
async function searched(database) {
  const container = await created(database, {
    vectorEmbeddingPolicy: { vectorEmbeddings: [{ path: "/v", dataType: "float32", distanceFunction: "cosine", dimensions: 2 }] },
    fullTextPolicy: { defaultLanguage: "en-US", fullTextPaths: [{ path: "/text", language: "en-US" }] },
    indexingPolicy: {
      includedPaths: [{ path: "/*" }], excludedPaths: [{ path: '/"_etag"/?' }, { path: "/v/*" }],
      vectorIndexes: [{ path: "/v", type: "flat" }], fullTextIndexes: [{ path: "/text" }],
    },
  });
  for (const [n, text] of words.entries()) await container.items.create({ id: `${n}`, pk: `p${n}`, text, v: [Math.cos(n), Math.sin(n)] });
  return container;
}
check("search", "the nearest vectors of all partitions", async (database) => {
  const container = await searched(database);
  const found = await rows(container, "SELECT TOP 3 c.id, VectorDistance(c.v, [1, 0]) AS score FROM c ORDER BY VectorDistance(c.v, [1, 0])");
  equal(found.map((each) => each.id), ["0", "1", "5"]);
  holds(Math.abs(found[0].score - 1) < 1e-9, JSON.stringify(found));
});
check("search", "the nearest vectors of one partition", async (database) => {
  const container = await searched(database);
  const query = { query: "SELECT TOP 1 c.id FROM c ORDER BY VectorDistance(c.v, @v)", parameters: [{ name: "@v", value: [0, 1] }] };
  equal(await rows(container, query, { partitionKey: "p2" }), [{ id: "2" }]);
});
check("search", "FullTextContains, All and Any", async (database) => {
  const container = await searched(database);
  equal((await rows(container, "SELECT VALUE c.id FROM c WHERE FullTextContains(c.text, 'red')")).sort(), ["0", "2", "4"]);
  equal((await rows(container, "SELECT VALUE c.id FROM c WHERE FullTextContainsAll(c.text, 'red', 'car')")).sort(), ["2"]);
  equal((await rows(container, "SELECT VALUE c.id FROM c WHERE FullTextContainsAny(c.text, 'hill', 'car')")).sort(), ["2", "3", "4"]);
});
check("search", "ORDER BY RANK FullTextScore", async (database) => {
  const container = await searched(database);
  equal((await rows(container, "SELECT TOP 2 c.id FROM c ORDER BY RANK FullTextScore(c.text, 'bike')")).map((each) => each.id), ["5", "0"]);
});
check("search", "ORDER BY RANK RRF of text and vector", async (database) => {
  const container = await searched(database);
  const found = await rows(container, "SELECT TOP 3 c.id FROM c ORDER BY RANK RRF(FullTextScore(c.text, 'red'), VectorDistance(c.v, [1, 0]))");
  equal(found.length, 3);
  equal(found[0].id, "0");
});

async function main() {
  let number = 0;
  for (const { area, name, run, declared } of checks) {
    number += 1;
    const id = `check${number}`;
    let error;
    const timeout = new Promise((_, reject) => setTimeout(() => reject(new Error("no result after 30 seconds")), 30_000).unref());
    try {
      const database = run.length ? (await client.databases.create({ id })).database : undefined;
      await Promise.race([run(database), timeout]);
      await database?.delete();
    } catch (caught) {
      error = `${caught.message ?? caught}`.slice(0, 600);
    }
    console.log(JSON.stringify({ area, name, error, declared }));
  }
}
await main();
process.exit(0);
