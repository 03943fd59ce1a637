//! The table of products on the page about agents is that of `baton agents`.

use std::fs;
use std::process::Command;

use serde_json::Value;

use super::{project, read};

const PAGE: &str = "docs/guide/agents.md";
const BEGIN: &str = "<!-- Generated from cli/src/agent/known.rs. -->\n";
const END: &str = "<!-- End of what is generated. -->\n";

fn known() -> Vec<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_baton"))
        .args(["agents", "--json"])
        .output();
    let output = output.expect("baton runs").stdout;
    let document: Value = serde_json::from_slice(&output).expect("JSON");
    document["agents"].as_array().expect("a list").clone()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(values: &Value) -> Vec<String> {
    let values = values.as_array().into_iter().flatten();
    values.map(|value| text(value).to_owned()).collect()
}

fn codes(values: &Value) -> String {
    let codes = list(values).into_iter().map(|value| format!("`{value}`"));
    codes.collect::<Vec<_>>().join(", ")
}

fn row(agent: &Value) -> String {
    let node = agent["node"].as_str();
    let node = node.map_or("–".to_owned(), |least| format!("Node.js {least}"));
    format!(
        "| `{}` | {} | `{}` | `{}` | {node} | {}; {} | {} |\n",
        text(&agent["name"]),
        text(&agent["title"]),
        list(&agent["command"]).join(" "),
        text(&agent["install"]),
        codes(&agent["credentials"]),
        codes(&agent["settings"]),
        text(&agent["login"]),
    )
}

fn table() -> String {
    let head = "| `--agent` | product | runs | installed by | needs | environment: credentials; settings | credentials |\n|---|---|---|---|---|---|---|\n";
    let rows: String = known().iter().map(row).collect();
    format!("{head}{rows}")
}

#[test]
fn the_agents_page_has_the_table_of_the_code() {
    let page = read(PAGE);
    let (before, rest) = page.split_once(BEGIN).expect("the table has a beginning");
    let (_, after) = rest.split_once(END).expect("the table has an end");
    let expected = format!("{before}{BEGIN}\n{}\n{END}{after}", table());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(project().join(PAGE), &expected).expect("writable");
    }
    assert!(
        read(PAGE) == expected,
        "{PAGE} is not what the code says: run this test with UPDATE_DOCS=1"
    );
}
