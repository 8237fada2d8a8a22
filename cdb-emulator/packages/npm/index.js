// Starts the emulator as a child process, for tests and development.

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** The emulators' well-known key. It is public. */
export const key = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

/** The path of the program. */
export const program = fileURLToPath(new URL("./bin/cdb-emulator", import.meta.url));

/**
 * Starts an emulator on a free port, with its data in memory.
 * @param {string[]} options options of the program, see `npx cdb-emulator --help`
 */
export async function start(options = []) {
  const port = options.includes("--port") ? [] : ["--port", "0"];
  const child = spawn(program, [...port, ...options], { stdio: ["ignore", "pipe", "pipe"] });
  let errors = "";
  child.stderr.on("data", (text) => (errors += text));
  const ended = new Promise((resolve) => child.once("close", resolve));
  const endpoint = await new Promise((resolve, reject) => {
    child.once("error", reject);
    createInterface(child.stdout).once("line", (line) => {
      const found = line.match(/https?:\/\/\S+/);
      found ? resolve(found[0]) : reject(new Error(`cdb-emulator: ${line}`));
    });
    ended.then(() => reject(new Error(`cdb-emulator ended before it was ready: ${errors.trim()}`)));
  });
  child.stdout.resume();
  // The emulator must not outlive the program that started it.
  const kill = () => child.kill();
  process.once("exit", kill);
  return {
    endpoint,
    key,
    connectionString: `AccountEndpoint=${endpoint};AccountKey=${key};`,
    async stop() {
      process.removeListener("exit", kill);
      child.kill("SIGTERM");
      await ended;
    },
  };
}
