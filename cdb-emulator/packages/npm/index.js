// Starts the emulator as a child process, for tests and development.

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** The emulators' well-known key. It is public. */
export const key = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

/** The path of the program. */
export const program = fileURLToPath(new URL("./bin/cdb-emulator", import.meta.url));

/** The signals that end the program which started the emulator. */
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"];

/** Returns the value of an option, given as `--name value` or `--name=value`; undefined without it. */
function valueOf(options, name) {
  const at = options.indexOf(name);
  if (at >= 0) return options[at + 1];
  return options.find((option) => option.startsWith(`${name}=`))?.slice(name.length + 1);
}

/**
 * Starts an emulator on a free port, with its data in memory.
 * @param {string[]} options options of the program, see `npx cdb-emulator --help`
 */
export async function start(options = []) {
  const port = valueOf(options, "--port") === undefined ? ["--port", "0"] : [];
  const accountKey = valueOf(options, "--key") ?? key;
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
  const end = (signal) => {
    kill();
    // Without another listener the signal ends the program, as it does without this one.
    if (process.listenerCount(signal) === 0) process.kill(process.pid, signal);
  };
  for (const signal of SIGNALS) process.once(signal, end);
  return {
    endpoint,
    key: accountKey,
    connectionString: `AccountEndpoint=${endpoint};AccountKey=${accountKey};`,
    async stop() {
      process.removeListener("exit", kill);
      for (const signal of SIGNALS) process.removeListener(signal, end);
      child.kill("SIGTERM");
      await ended;
    },
  };
}
