//! Tables that the code can be asked about: error codes, exit codes, metrics.

use std::collections::BTreeSet;

use baton_protocol::ErrorCode;

use super::markdown::rows;
use super::read;

/// The text of a cell whose links are taken off: `[limits](limits.md)` is `limits`.
fn without_links(cell: &str) -> String {
    let mut parts = cell.split("](");
    let mut text = parts.next().unwrap_or_default().replace('[', "");
    for part in parts {
        let rest = part.split_once(')').map_or("", |(_, rest)| rest);
        text.push_str(&rest.replace('[', ""));
    }
    text
}

#[test]
fn the_errors_page_has_every_code_and_no_other() {
    let rows = rows(&read("docs/reference/errors.md"), "code");
    let documented = rows.iter().map(|cells| {
        let texts = cells.iter().map(|cell| without_links(cell));
        texts.collect::<Vec<_>>()
    });
    let known = ErrorCode::ALL.iter().map(|code| {
        let number = code.value().to_string();
        [&number, code.name(), code.meaning(), code.advice()].map(str::to_owned)
    });
    let known: Vec<Vec<String>> = known.map(Vec::from).collect();
    assert_eq!(documented.collect::<Vec<_>>(), known);
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

/// Files in which metrics are registered. Those of a row have the prefix of the first.
const METRICS: [&[&str]; 5] = [
    &["gateway/src/metrics.rs"],
    &[
        "worker/src/metrics.rs",
        "worker/src/metrics/agent_processes.rs",
        "worker/src/metrics/models.rs",
    ],
    &["session/src/metrics.rs"],
    &["session/src/audit/metrics.rs"],
    &["cli/src/meters.rs"],
];

/// The first text in quotes.
fn quoted(text: &str) -> Option<&str> {
    text.split('"').nth(1)
}

/// Names without unit and `_total`, as `baton_gateway_request`.
fn registered() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for files in METRICS {
        let texts = files.iter().map(|file| read(file));
        let code = texts.map(|text| text.split("#[cfg(test)]").next().map(str::to_owned));
        let code: String = code.flatten().collect();
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
    let suffix = ["_total", "_seconds", "_bytes", "_info"].iter();
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
