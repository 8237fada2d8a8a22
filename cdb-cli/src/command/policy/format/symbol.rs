//! Symbolic names of resources in Bicep and Terraform.

/// Turns the name of a container into a symbol that Bicep and Terraform accept.
pub(super) fn symbol(name: &str) -> String {
    let word = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let symbol: String = name.chars().map(word).collect();
    if symbol.starts_with(|c: char| c.is_ascii_alphabetic()) {
        symbol
    } else {
        format!("container_{symbol}")
    }
}
