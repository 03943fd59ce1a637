//! `docs/operate/audit.md` is written from the enum: `UPDATE_DOCS=1 scripts/test the_audit_page`.

use std::fs;
use std::path::Path;

use baton_session::audit::TABLE;

#[test]
fn audit_the_audit_page_says_what_the_enum_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operate/audit.md");
    let text = fs::read_to_string(&path).expect("it is there");
    let (start, rest) = text.split_once("| decision |").expect("a table");
    let (_, end) = rest.split_once("\n\n").expect("an end of the table");
    let mut table = "| decision | its own fields | when |\n|---|---|---|\n".to_owned();
    for (name, fields, when) in TABLE {
        let fields: Vec<String> = fields.iter().map(|field| format!("`{field}`")).collect();
        table += &format!("| `{name}` | {} | {} |\n", fields.join(", "), when.trim());
    }
    let expected = format!("{start}{table}\n{end}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &expected).expect("writable");
    } else {
        assert!(text == expected, "run it with UPDATE_DOCS=1");
    }
}
