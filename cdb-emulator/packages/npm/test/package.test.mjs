// The installed package: the module, and the command.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { test } from "node:test";
import { CosmosClient } from "@azure/cosmos";
import { start } from "cdb-emulator";

test("a client stores and finds a document", async () => {
  const emulator = await start();
  try {
    const client = new CosmosClient(emulator.connectionString);
    const { database } = await client.databases.create({ id: "shop" });
    const { container } = await database.containers.create({ id: "orders", partitionKey: "/customer" });
    await container.items.create({ id: "1", customer: "ada", total: 990 });
    const found = await container.items.query("SELECT VALUE c.total FROM c").fetchAll();
    assert.deepEqual(found.resources, [990]);
  } finally {
    await emulator.stop();
  }
});

test("a port and a key can be given in both forms", async () => {
  const key = Buffer.alloc(64, 1).toString("base64");
  for (const options of [["--port", "0", "--key", key], ["--port=0", `--key=${key}`]]) {
    const emulator = await start(options);
    try {
      assert.equal(emulator.key, key);
      const client = new CosmosClient(emulator.connectionString);
      await client.databases.create({ id: "shop" });
    } finally {
      await emulator.stop();
    }
  }
});

test("the emulator ends with the program that started it", async () => {
  const program = `import { start } from "cdb-emulator"; console.log((await start()).endpoint); setInterval(() => {}, 1000);`;
  const child = spawn(process.execPath, ["--input-type=module", "--eval", program], { stdio: ["ignore", "pipe", "inherit"] });
  const endpoint = await new Promise((resolve) => child.stdout.once("data", (text) => resolve(String(text).trim())));
  assert.equal((await fetch(endpoint)).status, 401);
  const ended = new Promise((resolve) => child.once("close", (code, signal) => resolve(signal)));
  child.kill("SIGTERM");
  assert.equal(await ended, "SIGTERM");
  // The emulator completes its requests first.
  while (await fetch(endpoint).then(() => true, () => false));
});

test("a wrong option is an error with its reason", async () => {
  await assert.rejects(start(["--partitions", "none"]), /invalid value 'none'/);
});

test("the command runs until it is told to stop", async () => {
  const child = spawn("node_modules/.bin/cdb-emulator", ["--port", "0"], { stdio: ["ignore", "pipe", "inherit"] });
  const line = await new Promise((resolve) => child.stdout.once("data", (text) => resolve(String(text))));
  assert.match(line, /^ready after \d+ ms at http/);
  const ended = new Promise((resolve) => child.once("close", resolve));
  child.kill("SIGTERM");
  assert.equal(await ended, 0);
});

test("npx finds the command", () => {
  const shown = spawnSync("npx", ["cdb-emulator", "--version"], { encoding: "utf8" });
  assert.match(shown.stdout, /^cdb-emulator \d/);
});
