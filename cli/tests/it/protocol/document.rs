//! The table as a page of the documentation.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::{EVERYWHERE, Transport, table};

const INTRODUCTION: &str = "\
# The protocol, rule by rule

What Baton promises for each method of the \
                            [Agent Client Protocol](https://agentclientprotocol.com), and how the \
                            tests
see that it holds. Each line is a check in `cli/tests/it/protocol`. It runs with sessions in \
                            memory, in files and on
Redis behind two gateways, over each of the transports it names: *streams* (POSTs that are \
                            answered on streams opened
by GET), *WebSocket*, and *one-shot* (POSTs that are answered in their bodies). Every message that \
                            the server sends
meanwhile is held against the protocol's published schema.

Written by the tests: change the table there, then `UPDATE_DOCS=1 scripts/test \
                            the_page_says_what_the_table_says`.
";

fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    let mut method = "";
    for row in table() {
        if row.method != method {
            method = row.method;
            let _ = write!(
                page,
                "\n## {method}\n\n| rule | checked | transports |\n|---|---|---|\n"
            );
        }
        let transports = match row.transports == EVERYWHERE {
            true => "all".to_owned(),
            false => row
                .transports
                .iter()
                .map(name)
                .collect::<Vec<_>>()
                .join(", "),
        };
        let _ = writeln!(page, "| {} | {} | {transports} |", row.rule, row.checked);
    }
    page
}

fn name(transport: &Transport) -> &'static str {
    match transport {
        Transport::Streams => "streams",
        Transport::WebSocket => "WebSocket",
        Transport::OneShot => "one-shot",
    }
}

#[test]
fn the_page_says_what_the_table_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/protocol.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::create_dir_all(path.parent().expect("a folder")).expect("the folder can be made");
        fs::write(&path, page()).expect("the page can be written");
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page(),
        "docs/reference/protocol.md is not what the table says: run this test with UPDATE_DOCS=1"
    );
}

#[test]
fn no_rule_is_there_twice_and_a_methods_rules_stand_together() {
    let mut seen = std::collections::HashSet::new();
    let mut methods = Vec::new();
    for row in table() {
        assert!(
            seen.insert((row.method, row.rule)),
            "{}: {}",
            row.method,
            row.rule
        );
        if methods.last() != Some(&row.method) {
            assert!(
                !methods.contains(&row.method),
                "{} is in two places",
                row.method
            );
            methods.push(row.method);
        }
    }
}
