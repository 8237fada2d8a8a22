//! `differences.txt`: the tests that fail on purpose.

/// A test that fails, because the emulator of the Cosmos team differs from the service.
#[derive(Debug, PartialEq)]
pub(crate) struct Difference {
    pub(crate) suite: String,
    pub(crate) test: String,
    /// Whether the test passes at times.
    pub(crate) sometimes: bool,
}

impl Difference {
    /// Reads lines of the form `suite test: reason (source)`. Lines with `#` are comments. A
    /// reason that begins with "sometimes" allows the test to pass.
    pub(crate) fn all(list: &str) -> Result<Vec<Self>, String> {
        let lines = list.lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let read = lines.map(|line| {
            let (address, reason) = line.split_once(": ")?;
            let (suite, test) = address.split_once(' ')?;
            let has_source = reason.ends_with(')') && reason.contains(" (");
            has_source.then(|| Self {
                suite: suite.to_owned(),
                test: test.to_owned(),
                sometimes: reason.starts_with("sometimes "),
            })
        });
        let read: Option<Vec<Self>> = read.collect();
        read.ok_or_else(|| "differences.txt: `suite test: reason (source)` is expected".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::Difference;

    #[test]
    fn each_difference_has_a_reason_and_a_source() {
        let all = Difference::all(include_str!("../differences.txt"));
        assert!(!all.expect("all are well-formed").is_empty());
        assert!(Difference::all("client service::a: no source").is_err());
    }
}
