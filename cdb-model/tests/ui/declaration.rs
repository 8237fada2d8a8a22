// A case whose mistake is in a declaration: the imports, and a program that does nothing.

include!("imports.rs");

fn main() {}
