//! The query language: the parser, and the evaluation of queries on documents.

pub(crate) mod ast;
mod context;
mod error;
pub(crate) mod eval;
mod function;
mod lexer;
mod parsed;
mod parser;
mod part;
mod pattern;
mod print;
pub(crate) mod rows;
pub(crate) mod value;

pub(crate) use ast::call;
pub(crate) use context::Context;
pub(crate) use function::Aggregate;
pub(crate) use parsed::ParsedQueries;
pub(crate) use parser::parse;
pub(crate) use part::Part;

#[cfg(test)]
mod tests;
