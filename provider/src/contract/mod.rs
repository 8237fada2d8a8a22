//! What the runtime, clients, operators and tools call: one call per method.

mod dead_letters;
mod effects;
mod management;
mod rewind;
mod runtime;
mod shutdown;
mod tools;
