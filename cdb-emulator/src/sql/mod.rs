//! The query language: text to tree, tree over a document to value.

pub(crate) mod ast;
pub(crate) mod clauses;
pub(crate) mod eval;
mod function;
mod lexer;
mod parser;
pub(crate) mod value;

pub(crate) use parser::parse;

#[cfg(test)]
mod tests;
