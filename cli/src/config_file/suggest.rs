//! The name that somebody may have meant.

/// As alike as clap wants the names that it suggests itself.
const ALIKE: f64 = 0.7;

pub fn nearest<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let rated = names
        .into_iter()
        .map(|name| (strsim::jaro(given, name), name));
    let best = rated.max_by(|(one, _), (other, _)| one.total_cmp(other));
    best.filter(|(alike, _)| *alike > ALIKE)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_name_that_is_alike_is_suggested() {
        let names = ["listen", "slots", "session-ttl"];
        assert_eq!(nearest("lisen", names), Some("listen"));
        assert_eq!(nearest("session_ttl", names), Some("session-ttl"));
        assert_eq!(nearest("colour", names), None);
    }
}
