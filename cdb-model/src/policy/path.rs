//! The service's grammar of paths in policies.

/// Returns a stored path in the policy's grammar, in which names that are not plain words are
/// quoted.
pub(crate) fn policy_path(pointer: &str) -> String {
    let mut out = String::new();
    for name in pointer.split('/').filter(|name| !name.is_empty()) {
        out.push('/');
        let plain = name == "[]"
            || (name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
                && !name.starts_with(|c: char| c.is_ascii_digit()));
        if plain {
            out.push_str(name);
        } else {
            out.push('"');
            out.push_str(&name.replace('\\', "\\\\").replace('"', "\\\""));
            out.push('"');
        }
    }
    out
}
