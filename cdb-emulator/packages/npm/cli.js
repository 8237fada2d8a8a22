#!/usr/bin/env node
// `npx cdb-emulator`: the program, with its arguments and signals.

import { spawn } from "node:child_process";
import { program } from "./index.js";

const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
process.on("SIGTERM", () => child.kill("SIGTERM"));
process.on("SIGINT", () => {
  // A terminal has sent it to the child too, and a second one would end the child at once.
  if (!process.stdin.isTTY) child.kill("SIGINT");
});
child.on("error", (error) => {
  console.error(`cdb-emulator: ${error.message}`);
  process.exit(1);
});
child.on("close", (code) => process.exit(code ?? 1));
