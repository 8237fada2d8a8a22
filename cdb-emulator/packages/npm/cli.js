#!/usr/bin/env node
// `npx cdb-emulator`: the program, with its arguments and signals.

import { spawn } from "node:child_process";
import { program } from "./index.js";

const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(`cdb-emulator: ${error.message}`);
  process.exit(1);
});
child.on("close", (code) => process.exit(code ?? 1));
