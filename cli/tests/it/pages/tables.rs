//! Tables that the code can be asked about: error codes, exit codes, metrics.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::markdown::rows;
use super::{project, read};

/// Numbers of our errors. Others that look alike are sizes or milliseconds.
fn is_code(number: i64) -> bool {
    let ours = (4001..4050).contains(&number) || (5001..5050).contains(&number);
    ours || (-32800..=-32000).contains(&number)
}

/// The code of a line such as `const QUEUE_FULL: i64 = 4003;`, `QueueFull = 4003,`, `=> 4003,` or `code: 4003,`.
fn code_of(line: &str) -> Option<i64> {
    let line = line.trim().trim_end_matches([',', ';']);
    let (_, number) = line.rsplit_once(['=', '>', ':'])?;
    let number = number.trim().replace('_', "").parse().ok()?;
    is_code(number).then_some(number)
}

fn codes_in(folder: &Path, codes: &mut BTreeSet<i64>) {
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let tests = name.starts_with("tests") || name == "fuzzing";
        if path.is_dir() && !tests {
            codes_in(&path, codes);
        } else if name.ends_with(".rs") && !tests {
            let text = fs::read_to_string(&path).expect("a text");
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            codes.extend(code.lines().filter_map(code_of));
        }
    }
}

#[test]
fn the_errors_page_has_every_code_and_no_other() {
    let mut codes = BTreeSet::new();
    for name in ["protocol", "session", "gateway", "worker", "client"] {
        let folder = project().join(name).join("src");
        if folder.is_dir() {
            codes_in(&folder, &mut codes);
        }
    }
    let rows = rows(&read("docs/reference/errors.md"), "code");
    let documented = rows.iter().map(|cells| cells[0].parse().expect("a number"));
    assert_eq!(documented.collect::<BTreeSet<i64>>(), codes);
}

#[test]
fn the_exit_codes_page_has_every_code_and_no_other() {
    let source = read("cli/src/exit.rs");
    let codes = source.lines().filter(|line| line.contains(": u8 = "));
    let codes = codes.filter_map(|line| line.trim_end_matches(';').rsplit_once(" = "));
    let codes = codes.map(|(_, number)| number.parse().expect("a number"));
    let codes: BTreeSet<u8> = codes.chain([0]).collect();
    let rows = rows(&read("docs/reference/exit-codes.md"), "code");
    let documented = rows.iter().map(|cells| cells[0].parse().expect("a number"));
    assert_eq!(documented.collect::<BTreeSet<u8>>(), codes);
}

/// Files in which metrics are registered.
const METRICS: [&str; 5] = [
    "gateway/src/metrics.rs",
    "worker/src/metrics.rs",
    "session/src/metrics.rs",
    "session/src/audit/metrics.rs",
    "cli/src/meters.rs",
];

/// The first text in quotes.
fn quoted(text: &str) -> Option<&str> {
    text.split('"').nth(1)
}

/// Names without unit and `_total`, as `baton_gateway_request`.
fn registered() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for file in METRICS {
        let text = read(file);
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let prefix = code
            .split("sub_registry_with_prefix(")
            .nth(1)
            .and_then(quoted);
        let prefix = prefix
            .map(|prefix| format!("{prefix}_"))
            .unwrap_or_default();
        for call in [".register(", ".register_with_unit("] {
            let calls = code
                .split(call)
                .skip(1)
                .filter_map(|rest| rest.split(';').next());
            // Calls that pass a name on have none in quotes.
            let named = calls.filter_map(quoted);
            names.extend(named.map(|name| format!("baton_{prefix}{name}")));
        }
    }
    names
}

fn stem(metric: &str) -> String {
    let name = metric
        .trim_matches('`')
        .split('{')
        .next()
        .unwrap_or_default();
    let suffix = ["_total", "_seconds", "_info"].iter();
    let stem = suffix.clone().find_map(|suffix| name.strip_suffix(suffix));
    stem.unwrap_or(name).to_owned()
}

#[test]
fn the_metrics_page_has_every_metric_and_no_other() {
    let rows = rows(&read("docs/reference/metrics.md"), "metric");
    let documented: BTreeSet<String> = rows.iter().map(|cells| stem(&cells[0])).collect();
    assert_eq!(documented, registered());
    for cells in &rows {
        let known = ["counter", "gauge", "histogram"].contains(&cells[1].as_str());
        assert!(known, "{}: {}", cells[0], cells[1]);
        assert_eq!(
            cells[0].contains("_total"),
            cells[1] == "counter",
            "{}",
            cells[0]
        );
    }
}
